"""Many fits of one model: to many data sets, to many neighbourhoods of features."""
