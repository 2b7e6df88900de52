fullbore info a b
