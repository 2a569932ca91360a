package core_test

import (
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
)

func traceback(statement, last string) core.Output {
	text := "warming up\nTraceback (most recent call last):\n  File \"/work/main.py\", line 1, in <module>\n    " + statement + "\n" + last + "\n"
	return core.Output{Head: []byte(text), Total: int64(len(text))}
}

func TestMissingModule(t *testing.T) {
	no := "ModuleNotFoundError: No module named "
	for _, tt := range []struct{ statement, last, name, want string }{
		{"import cv2", no + "'cv2'", "cv2", "opencv-python-headless"},
		{"from sklearn.svm import SVC", no + "'sklearn'", "sklearn", "scikit-learn"},
		{"from PIL import Image", no + "'PIL'", "PIL", "pillow"},
		{"import yaml", no + "'yaml'", "yaml", "pyyaml"},
		{"import bs4", no + "'bs4'", "bs4", "beautifulsoup4"},
		{"import dateutil.parser", no + "'dateutil'", "dateutil", "python-dateutil"},
		{"import dotenv", no + "'dotenv'", "dotenv", "python-dotenv"},
		{"import Crypto.Cipher", no + "'Crypto'", "Crypto", "pycryptodome"},
		{"import OpenSSL", no + "'OpenSSL'", "OpenSSL", "pyopenssl"},
		{"import jwt", no + "'jwt'", "jwt", "pyjwt"},
		{"import serial", no + "'serial'", "serial", "pyserial"},
		{"import skimage", no + "'skimage'", "skimage", "scikit-image"},
		{"import docx", no + "'docx'", "docx", "python-docx"},
		{"import pptx", no + "'pptx'", "pptx", "python-pptx"},
		{"import fitz", no + "'fitz'", "fitz", "pymupdf"},
		{"import magic", no + "'magic'", "magic", "python-magic"},
		{"import attr", no + "'attr'", "attr", "attrs"},
		{"from google.protobuf import message", no + "'google'", "google.protobuf.message", "protobuf"},
		{"import google.protobuf.message as m", no + "'google'", "google.protobuf.message", "protobuf"},
		{"from google.protobuf import message", no + "'google.protobuf'", "google.protobuf", "protobuf"},
		{"from google.cloud import bigquery", no + "'google'", "google.cloud.bigquery", "google-cloud-bigquery"},
		{"from google.cloud import bigquery_storage", no + "'google.cloud'", "google.cloud.bigquery_storage", "google-cloud-bigquery-storage"},
		{"from google import genai", no + "'google'", "google.genai", "google-genai"},
		{"import google", no + "'google'", "google", ""},
		{"from azure.identity import X", no + "'azure'", "azure.identity.X", "azure-identity"},
		{"from azure.storage.blob import X", no + "'azure.storage'", "azure.storage.blob.X", "azure-storage-blob"},
		{"import pandas as pd", no + "'pandas'", "pandas", "pandas"},
		{"import sentence_transformers", no + "'sentence_transformers'", "sentence_transformers", "sentence-transformers"},
		{"import pandas.nothing", no + "'pandas.nothing'", "pandas.nothing", ""},
		{"import yaml.nothing", no + "'yaml.nothing'", "yaml.nothing", ""},
		{"import winreg", no + "'winreg'", "winreg", ""},
		{"import distutils.core", no + "'distutils'", "distutils", ""},
		{"import _ctypes_test", no + "'_ctypes_test'", "_ctypes_test", ""},
		{"import utils", no + "'utils'", "utils", ""},
		{"import mine", no + "'mine'", "mine", ""},
		{"import pkg.part", no + "'pkg'", "pkg", ""},
		{"pd.read_excel('x')", "ImportError: Missing optional dependency 'openpyxl'.  Use pip or conda to install openpyxl.", "openpyxl", "openpyxl"},
		{"", "/usr/local/bin/python3: No module named pytest", "pytest", "pytest"},
		{"import x", "  | " + no + "'numpy'", "numpy", "numpy"},
		{"import x", no + "'numpy'. Did you mean: 'x'?", "numpy", "numpy"},
	} {
		found, ok := core.FindMissingModule(traceback(tt.statement, tt.last), []string{"src/mine.py", "pkg/part.py", "data.csv"})
		if want := (core.MissingModule{Name: tt.name, Package: tt.want}); !ok || found != want {
			t.Errorf("%s, %s: got %+v, %v, want %+v", tt.statement, tt.last, found, ok, want)
		}
	}
}

func TestNoMissingModule(t *testing.T) {
	for _, last := range []string{
		"", "ValueError: No module named 'x'", "ModuleNotFoundError: import of x halted; None in sys.modules",
		"ModuleNotFoundError: No module named 'my.part'; 'my' is not a package", "ModuleNotFoundError: No module named ''",
		"ModuleNotFoundError: No module named '" + strings.Repeat("x", 200) + "'", "ModuleNotFoundError: No module named 'x y'",
		"ModuleNotFoundError: No module named '--index-url=x'", "ModuleNotFoundError: No module named 'é'",
	} {
		if found, ok := core.FindMissingModule(traceback("import x", last), nil); ok {
			t.Errorf("%.80s: got %+v", last, found)
		}
	}
}

// Of a long output the end counts.
func TestMissingModuleAtTheEnd(t *testing.T) {
	out := traceback("import six", "ModuleNotFoundError: No module named 'six'")
	long := core.Output{Head: []byte("ModuleNotFoundError: No module named 'idna'\n"), Tail: append(make([]byte, 64<<10), out.Head...), Total: 1 << 30}
	if found, ok := core.FindMissingModule(long, nil); !ok || found.Name != "six" {
		t.Errorf("got %+v, %v", found, ok)
	}
	long.Tail = append(out.Head, make([]byte, 64<<10)...)
	if found, ok := core.FindMissingModule(long, nil); ok {
		t.Errorf("got %+v", found)
	}
}

func TestMissingModuleHint(t *testing.T) {
	asked, err := core.ParseRequirements([]string{"pandas>=2", `tomli; python_version < "3.11"`, "protobuf", "setuptools"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		missing core.MissingModule
		want    string
	}{
		{core.MissingModule{Name: "cv2", Package: "opencv-python-headless"}, `dependencies: ["opencv-python-headless", "pandas>=2", "protobuf", "setuptools", "tomli ; python_version < \"3.11\""]`},
		{core.MissingModule{Name: "google.protobuf", Package: "protobuf"}, `is installed but has no module "google.protobuf"`},
		{core.MissingModule{Name: "pkg_resources", Package: "setuptools<81"}, `is installed but has no module`},
		{core.MissingModule{Name: "utils"}, `no package is known to have it`},
	} {
		if got := tt.missing.Hint(asked); !strings.Contains(got, tt.want) {
			t.Errorf("%+v: got %s", tt.missing, got)
		}
	}
}

// FuzzMissingModule: whatever a program prints, what comes out is a requirement that passes, or nothing.
func FuzzMissingModule(f *testing.F) {
	for _, seed := range []string{"import google.x\nModuleNotFoundError: No module named 'google'", "ImportError: Missing optional dependency 'a.b'", ": No module named x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found, ok := core.FindMissingModule(core.Output{Head: []byte(text)}, nil)
		if !ok {
			return
		}
		list, err := core.ParseRequirements([]string{found.Package})
		if err != nil || (len(list) == 1) != (found.Package != "") || len(found.Name) > 100 {
			t.Errorf("%q gave %+v: %v, %v", text, found, list, err)
		}
		if found.Package != "" && !found.Asked(list) {
			t.Errorf("%+v is not among %v", found, list)
		}
	})
}
