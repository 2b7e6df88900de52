fullbore info nowhere
