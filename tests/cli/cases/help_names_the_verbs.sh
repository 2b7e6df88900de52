fullbore --help
