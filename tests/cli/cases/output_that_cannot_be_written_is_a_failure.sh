fullbore info "$PHOTOS" >/dev/full
