cp -r "$PHOTOS" mine
python3 - <<'P'
import struct, zlib
def chunk(name, data): return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
open("mine/cat/bomb.png", "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 65500, 65500, 8, 2, 0, 0, 0))
                                      + chunk(b"IDAT", zlib.compress(b"\0" * 100000)) + chunk(b"IEND", b""))
P
fullbore bench mine
