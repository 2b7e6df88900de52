cp -r "$PHOTOS" mine
fullbore info mine | grep ^samples
rm mine/cat/00.jpg
fullbore info mine | grep ^samples
