import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Arrays;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.hadoop.hive.metastore.api.EnvironmentContext;
import org.apache.hadoop.hive.metastore.api.ThriftHiveMetastore;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.hadoop.hive.metastore.txn.TxnStore;
import org.apache.hadoop.hive.metastore.txn.TxnUtils;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;
import org.apache.thrift.transport.TTransportFactory;

/**
 * The Hive Metastore of the Hive that Spark ships, on loopback only; with the argument {@code every-interface} on all.
 *
 * <p>The same handler as {@code HiveMetaStore.main}, which binds every interface. The argument is the port; everything
 * else is in {@code hive-site.xml}. Locks of clients that are gone time out as with Hive's own housekeeping service.
 * With the argument {@code ignore-expectations} it is as servers before HIVE-26882 are, which do not look at what a client
 * expects of a table that it alters.
 */
public final class MetastoreServer {
  public static void main(String[] args) throws Exception {
    HiveConf conf = new HiveConf(MetastoreServer.class);
    TxnDbUtil.setConfValues(conf);
    prepareLocks(conf);
    ThriftHiveMetastore.Iface handler = HiveMetaStore.newRetryingHMSHandler("icequake", conf, false);
    if (Arrays.asList(args).contains("ignore-expectations")) {
      handler = withoutExpectations(handler);
    }
    int port = Integer.parseInt(args[0]);
    InetSocketAddress address =
        Arrays.asList(args).contains("every-interface")
            ? new InetSocketAddress(port)
            : new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
    TThreadPoolServer.Args options =
        new TThreadPoolServer.Args(new TServerSocket(address))
            .processor(new TSetIpAddressProcessor<ThriftHiveMetastore.Iface>(handler))
            .transportFactory(new TTransportFactory())
            .protocolFactory(new TBinaryProtocol.Factory())
            .minWorkerThreads(8)
            .maxWorkerThreads(200);
    startHousekeeping(conf);
    new TThreadPoolServer(options).serve();
  }

  /** The tables of the lock manager are no part of the metastore's schema; made once. */
  private static void prepareLocks(HiveConf conf) throws Exception {
    try {
      TxnDbUtil.prepDb(conf);
    } catch (java.sql.SQLException e) {
      if (!String.valueOf(e.getMessage()).contains("already exists")) {
        throw e;
      }
    }
  }

  private static ThriftHiveMetastore.Iface withoutExpectations(ThriftHiveMetastore.Iface handler) {
    return (ThriftHiveMetastore.Iface)
        Proxy.newProxyInstance(
            MetastoreServer.class.getClassLoader(),
            new Class<?>[] {ThriftHiveMetastore.Iface.class},
            (proxy, method, arguments) -> {
              for (Object argument : arguments == null ? new Object[0] : arguments) {
                if (argument instanceof EnvironmentContext && ((EnvironmentContext) argument).getProperties() != null) {
                  ((EnvironmentContext) argument).getProperties().keySet().removeIf(k -> k.startsWith("expected_parameter_"));
                }
              }
              try {
                return method.invoke(handler, arguments);
              } catch (InvocationTargetException e) {
                throw e.getCause();
              }
            });
  }

  private static void startHousekeeping(HiveConf conf) {
    TxnStore store = TxnUtils.getTxnStore(conf);
    Thread thread =
        new Thread(
            () -> {
              while (true) {
                try {
                  Thread.sleep(2_000);
                  store.performTimeOuts();
                } catch (InterruptedException e) {
                  return;
                } catch (RuntimeException e) {
                  System.err.println("housekeeping: " + e);
                }
              }
            },
            "housekeeping");
    thread.setDaemon(true);
    thread.start();
  }
}
