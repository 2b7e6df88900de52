fullbore feed "$PHOTOS"
