mkdir empty
fullbore info empty
