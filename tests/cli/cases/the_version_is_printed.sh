fullbore --version
