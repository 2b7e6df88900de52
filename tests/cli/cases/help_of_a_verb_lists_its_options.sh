fullbore bench --help
