"""What tests share: drawn histories, a simulated Iceberg, stored runs."""
