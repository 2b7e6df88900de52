mkdir logs
fullbore audit logs
