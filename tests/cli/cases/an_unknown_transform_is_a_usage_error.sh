fullbore bench "$PHOTOS" --transform "resise size=10"
