"""The data of a training repository; the server of d4explain has a package of this name, too."""
