fullbore info "$PHOTOS" >first
fullbore info "$PHOTOS" | grep catalog
