package core

import "strings"

// modulePackages are modules whose package has another name, a pair a line. Names that differ only in case, or in
// _ and -, need no line.
const modulePackages = `
absl                    absl-py
attr                    attrs
audioop                 audioop-lts
azure.ai.formrecognizer azure-ai-formrecognizer
azure.data.tables       azure-data-tables
azure.keyvault.secrets  azure-keyvault-secrets
azure.mgmt.compute      azure-mgmt-compute
azure.storage.blob      azure-storage-blob
azure.storage.queue     azure-storage-queue
barcode                 python-barcode
bidi                    python-bidi
binance                 python-binance
Bio                     biopython
bs4                     beautifulsoup4
cairo                   pycairo
cgi                     legacy-cgi
community               python-louvain
consul                  python-consul
cpuinfo                 py-cpuinfo
crontab                 python-crontab
Crypto                  pycryptodome
Cryptodome              pycryptodomex
cv2                     opencv-python-headless
dateutil                python-dateutil
decouple                python-decouple
discord                 discord.py
django_filters          django-filter
dns                     dnspython
docx                    python-docx
dotenv                  python-dotenv
dtw                     dtw-python
engineio                python-engineio
faiss                   faiss-cpu
ffmpeg                  ffmpeg-python
fitz                    pymupdf
gi                      pygobject
git                     gitpython
github                  pygithub
gitlab                  python-gitlab
google.api_core         google-api-core
google.auth             google-auth
google.genai            google-genai
google.generativeai     google-generativeai
google.oauth2           google-auth
google.protobuf         protobuf
google.rpc              googleapis-common-protos
googleapiclient         google-api-python-client
graphql                 graphql-core
grpc                    grpcio
grpc_tools              grpcio-tools
haystack                haystack-ai
jose                    python-jose
jwt                     pyjwt
kafka                   kafka-python
ldap                    python-ldap
magic                   python-magic
memcache                python-memcached
mpl_toolkits            matplotlib
mpl_toolkits.basemap    basemap
mysql                   mysql-connector-python
MySQLdb                 mysqlclient
nacl                    pynacl
nmap                    python-nmap
nvidia_smi              nvidia-ml-py
odf                     odfpy
OpenGL                  pyopengl
OpenSSL                 pyopenssl
osgeo                   gdal
paho                    paho-mqtt
past                    future
pdfminer                pdfminer.six
PIL                     pillow
pkg_resources           setuptools<81
playhouse               peewee
pptx                    python-pptx
psycopg                 psycopg[binary]
psycopg2                psycopg2-binary
pylab                   matplotlib
pynvml                  nvidia-ml-py
pytables                tables
pywt                    pywavelets
pyximport               cython
qrcode                  qrcode[pil]
rest_framework          djangorestframework
ruamel                  ruamel-yaml
ruamel.yaml             ruamel-yaml
serial                  pyserial
shapefile               pyshp
skbio                   scikit-bio
skfuzzy                 scikit-fuzzy
skimage                 scikit-image
sklearn                 scikit-learn
skopt                   scikit-optimize
sksurv                  scikit-survival
slugify                 python-slugify
snappy                  python-snappy
socketio                python-socketio
socks                   pysocks
sockshandler            pysocks
speech_recognition      speechrecognition
stdnum                  python-stdnum
tabula                  tabula-py
talib                   ta-lib
telegram                python-telegram-bot
tlz                     toolz
umap                    umap-learn
usb                     pyusb
vlc                     python-vlc
websocket               websocket-client
wx                      wxpython
Xlib                    python-xlib
yaml                    pyyaml
z3                      z3-solver
zmq                     pyzmq
`

// namespaceModules are shared by many packages, so that the first part of a name says nothing.
const namespaceModules = "google google.cloud azure azure.storage backports zope jaraco sphinxcontrib opentelemetry"

// elsewhereModules are in the standard library of another system, another version or a larger installation of
// Python: no package has them, or one of that name is something else.
const elsewhereModules = `
winreg winsound msvcrt nt fcntl termios pty tty grp pwd resource curses readline syslog posix
tkinter turtle turtledemo idlelib dbm sqlite3 lzma bz2 zlib ssl ctypes ensurepip venv test
tomllib zoneinfo graphlib compression annotationlib string concurrent pathlib dataclasses contextvars importlib
distutils imp asyncore asynchat smtpd cgitb chunk crypt imghdr lib2to3 mailcap msilib nis nntplib ossaudiodev
pipes sndhdr spwd sunau telnetlib uu xdrlib aifc formatter parser symbol binhex macpath dummy_threading
urllib2 urlparse httplib ConfigParser configparser Queue StringIO cStringIO cPickle Tkinter tkMessageBox
commands htmlentitydefs HTMLParser SocketServer BaseHTTPServer SimpleHTTPServer Cookie cookielib thread
__builtin__ exceptions copy_reg anydbm xmlrpclib md5 sha sets UserDict sitecustomize usercustomize js pyodide
pythoncom pywintypes win32api win32com win32con win32gui win32file win32event win32process
`

// ownModules are names that programs give to files of their own. What an index has under them is hardly meant.
const ownModules = `
app api base client common conf config configs const constants core custom data database db demo example
examples foo bar baz func functions helper helpers lib libs local local_settings logger main model models
module mod my_module mymodule my_package mypackage my_script myapp myscript package pipeline plugin plugins
project routes schemas script scripts server service services settings setup shared solution src submodule
task tasks test_utils tests tool tools util utils utility views worker workspace work
`

// listedPackages is modulePackages, by module.
func listedPackages() map[string]string {
	packages := map[string]string{}
	words := strings.Fields(modulePackages)
	for i := 0; i+1 < len(words); i += 2 {
		packages[words[i]] = words[i+1]
	}
	return packages
}
