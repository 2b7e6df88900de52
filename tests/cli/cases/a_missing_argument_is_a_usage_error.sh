fullbore info
