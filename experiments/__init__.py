"""Named changes to a base config -> training runs -> one JSON record each -> tables and figures."""
