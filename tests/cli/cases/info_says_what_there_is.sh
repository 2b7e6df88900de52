fullbore info "$PHOTOS"
