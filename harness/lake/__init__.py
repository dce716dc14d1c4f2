"""Where are the numbers of all runs kept? The lake: Iceberg tables that PyIceberg writes and Spark reads."""
