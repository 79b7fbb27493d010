"""IP addresses and URL spellings that the SSRF guard refuses."""

from __future__ import annotations

PRIVATE4 = (
    "0.0.0.0 0.1.2.3 10.0.0.0 10.0.0.1 10.255.255.255 100.64.0.0 100.100.100.200 100.127.255.255 127.0.0.0 127.0.0.1 "
    "127.0.0.53 127.255.255.255 169.254.0.0 169.254.169.254 169.254.170.2 169.254.255.255 172.16.0.0 172.16.0.1 "
    "172.31.255.255 192.0.0.0 192.0.0.1 192.0.0.170 192.0.0.192 192.0.2.1 192.31.196.1 192.52.193.1 192.88.99.1 "
    "192.168.0.0 192.168.1.1 192.168.255.255 192.175.48.1 198.18.0.0 198.19.255.255 198.51.100.7 203.0.113.9 "
    "168.63.129.16 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.254 255.255.255.255"
).split()


PRIVATE6 = (
    ":: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:10.0.0.1 ::ffff:8.8.8.8 ::ffff:0:127.0.0.1 "
    "64:ff9b::a00:1 64:ff9b::7f00:1 64:ff9b::8.8.8.8 64:ff9b:1::1 100::1 2001::1 2001:0:7f00:1::1 2001:2::1 "
    "2001:10::1 2001:20::1 2001:1ff:ffff::1 2001:db8::1 2002:7f00:1::1 2002:a00:1::1 2002:c0a8:101::1 2620:4f:8000::1 "
    "3fff::1 3fff:fff::1 4000::1 5f00::1 fc00::1 fd00::1 fd00:ec2::254 fdff:ffff::1 fe80::1 fe80::1%eth0 "
    "2606:4700::1111%eth0 fec0::1 ff02::1 ff0e::1 fe80::a9fe:a9fe"
).split()


NO_NAME, PRIVATE, PRIVATE_NAME = "its host is not a name", "its address is private", "its host is private"


NO_URL, NO_HOST = "it is not a URL", "it has no host"


REFUSED_SPELLINGS = {
    "https://127.0.0.1/": PRIVATE,
    "https://127.0.0.1.": PRIVATE,
    "https://127.1/": NO_NAME,
    "https://127.0.1/": NO_NAME,
    "https://2130706433/": NO_NAME,
    "https://0/": NO_NAME,
    "https://0x7f000001/": NO_NAME,
    "https://0X7F000001/": NO_NAME,
    "https://0x7f.0.0.1/": NO_NAME,
    "https://127.0.0.0x1/": NO_NAME,
    "https://0177.0.0.1/": NO_URL,
    "https://017700000001/": NO_NAME,
    "https://00127.0.0.1/": NO_URL,
    "https://127.0.0.1.1/": NO_NAME,
    "https://256.256.256.256/": NO_URL,
    "https://example.1/": NO_NAME,
    "https://example.0x/": NO_NAME,
    "https://①②⑦.⓪.⓪.①/": NO_URL,
    "https://１２７.0.0.1/": NO_URL,
    "https://127。0。0。1/": PRIVATE,
    "https://[::1]/": PRIVATE,
    "https://[::]/": PRIVATE,
    "https://[::ffff:127.0.0.1]/": PRIVATE,
    "https://[::ffff:7f00:1]/": PRIVATE,
    "https://[0:0:0:0:0:ffff:7f00:1]/": PRIVATE,
    "https://[::127.0.0.1]/": PRIVATE,
    "https://[64:ff9b::7f00:1]/": PRIVATE,
    "https://[fe80::1%25eth0]/": PRIVATE,
    "https://[fd00:ec2::254]/": PRIVATE,
    "https://169.254.169.254/latest/meta-data/": PRIVATE,
    "https://100.100.100.200/": PRIVATE,
    "https://168.63.129.16/": PRIVATE,
    "https://192.0.0.192/": PRIVATE,
    "https://metadata/": PRIVATE_NAME,
    "https://metadata.google.internal/computeMetadata/v1/": PRIVATE_NAME,
    "https://METADATA.GOOGLE.INTERNAL./": PRIVATE_NAME,
    "https://metadata.goog/": PRIVATE_NAME,
    "https://instance-data/": PRIVATE_NAME,
    "https://instance-data.ec2.internal/": PRIVATE_NAME,
    "https://localhost/": PRIVATE_NAME,
    "https://localhost./": PRIVATE_NAME,
    "https://LOCALHOST/": PRIVATE_NAME,
    "https://loc\u00adalhost/": NO_URL,
    "https://ｌocalhost/": NO_URL,
    "https://a.localhost/": PRIVATE_NAME,
    "https://printer.local/": PRIVATE_NAME,
    "https://nas.home.arpa/": PRIVATE_NAME,
    "https://router.lan/": PRIVATE_NAME,
    "https://db.svc.cluster.local/": PRIVATE_NAME,
    "https://kubernetes.default.svc/": PRIVATE_NAME,
    "https://1.0.0.127.in-addr.arpa/": PRIVATE_NAME,
    "https://intranet/": PRIVATE_NAME,
    "https://abc.onion/": PRIVATE_NAME,
    "https://%31%32%37.0.0.1/": NO_NAME,
    "https://127.0.0.1%00.example.com/": NO_NAME,
    "https://example%2ecom/": NO_NAME,
    "https://example.com%2f@127.0.0.1/": "it carries credentials",
    "https://user@example.com/": "it carries credentials",
    "https://user:word@example.com/": "it carries credentials",
    "https://@example.com/": "it carries credentials",
    "https://:@example.com/": "it carries credentials",
    "https://example.com@127.0.0.1/": "it carries credentials",
    "https://example.com\\@127.0.0.1/": NO_URL,
    "https:\\\\127.0.0.1/": NO_URL,
    "https://127.0.0.1\t/": NO_URL,
    "https://exa\nmple.com/": NO_URL,
    "https://example.com/\r\nHost: x": NO_URL,
    " https://example.com/": NO_URL,
    "https://example.com /": NO_URL,
    "https://exam ple.com/": NO_URL,
    "https://[::1/": NO_URL,
    "https://::1/": NO_URL,
    "https://example.com:port/": NO_URL,
    "https://example.com:-1/": NO_URL,
    "https://-example.com/": NO_NAME,
    "https://example..com/": NO_NAME,
    "https://.example.com/": NO_NAME,
    "https://example.com../": NO_NAME,
    "https://exa$mple.com/": NO_NAME,
    "https:///etc/passwd": NO_HOST,
    "https://": NO_HOST,
    "https:example.com": NO_HOST,
    "https://./": NO_HOST,
    "http://example.com/": "it is not https",
    "HTTP://example.com/": "it is not https",
    "ftp://example.com/": "it is not https",
    "file:///etc/passwd": "it is not https",
    "gopher://127.0.0.1:6379/_": "it is not https",
    "data:image/png;base64,AAAA": "it is not https",
    "javascript:alert(1)": "it is not https",
    "//example.com/": "it is not https",
    "example.com": "it is not https",
    "": "it is not https",
    "https://example.com:0/": "its port is reserved",
    "https://example.com:22/": "its port is reserved",
    "https://example.com:80/": "its port is reserved",
    "https://example.com:442/": "its port is reserved",
    "https://example.com:1023/": "its port is reserved",
    "https://example.com:65536/": NO_URL,
    "https://" + "a" * 70_000 + ".com/": NO_URL,
}
