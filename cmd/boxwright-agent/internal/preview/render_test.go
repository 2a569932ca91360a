package preview_test

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"testing"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/preview"
	"github.com/boxwright/boxwright/core"
)

// picture is a gradient with noise, half transparent.
func picture(width, height int) *image.NRGBA {
	p := image.NewNRGBA(image.Rect(0, 0, width, height))
	state := uint32(7)
	for i := range p.Pix {
		state = state*1664525 + 1013904223
		p.Pix[i] = byte(state>>27) + byte(i*256/len(p.Pix))
	}
	return p
}

func encoded(t *testing.T, format string, p image.Image) []byte {
	t.Helper()
	var out bytes.Buffer
	var err error
	switch format {
	case "png":
		err = png.Encode(&out, p)
	case "jpeg":
		err = jpeg.Encode(&out, p, nil)
	case "gif":
		err = gif.Encode(&out, p, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestRender(t *testing.T) {
	for _, format := range []string{"png", "jpeg", "gif"} {
		for _, size := range []image.Point{{1, 1}, {600, 400}, {40, 3000}} {
			data := encoded(t, format, picture(size.X, size.Y))
			for _, limit := range []int{len(data), len(data) - 1, len(data) / 2, 20000} {
				got, err := preview.Render(bytes.NewReader(data), int64(limit))
				if size.X == 1 && errors.Is(err, core.ErrUnsupported) {
					continue // one pixel cannot become less
				}
				if err != nil || len(got.Data) > limit || got.Shrunk != (limit < len(data)) || got.Shrunk == bytes.Equal(got.Data, data) {
					t.Errorf("%s %v in %d of %d bytes: %v, %d bytes, shrunk %v", format, size, limit, len(data), err, len(got.Data), got.Shrunk)
					continue
				}
				_, kind, err := image.DecodeConfig(bytes.NewReader(got.Data))
				if err != nil || "image/"+kind != got.MIMEType {
					t.Errorf("%s %v: %s is said to be %s, %v", format, size, kind, got.MIMEType, err)
				}
			}
		}
	}
}

func TestFlatPictureStaysPNG(t *testing.T) {
	p := image.NewRGBA(image.Rect(0, 0, 3000, 3000))
	for i := range 3000 {
		p.Set(i, i, color.Black)
	}
	data := encoded(t, "png", p)
	got, err := preview.Render(bytes.NewReader(data), int64(len(data)-1))
	if err != nil || got.MIMEType != "image/png" {
		t.Errorf("%v %s", err, got.MIMEType)
	}
}

func TestHugePictureOfFewBytesIsMadeSmaller(t *testing.T) {
	data := encoded(t, "png", image.NewGray(image.Rect(0, 0, 9000, 10)))
	got, err := preview.Render(bytes.NewReader(data), 1<<20)
	if err != nil || !got.Shrunk {
		t.Fatalf("%v, shrunk %v", err, got.Shrunk)
	}
	if config, _, err := image.DecodeConfig(bytes.NewReader(got.Data)); err != nil || config.Width != 2048 {
		t.Errorf("%v, %d pixels wide", err, config.Width)
	}
}

func TestWhatIsNoPicture(t *testing.T) {
	whole := encoded(t, "png", picture(300, 300))
	for name, data := range map[string][]byte{
		"nothing": {}, "text": []byte("hello"), "svg": []byte("<svg/>"), "cut": whole[:len(whole)/2],
	} {
		for _, limit := range []int64{100, 1 << 20} { // also when its bytes would fit as they are
			if _, err := preview.Render(bytes.NewReader(data), limit); !errors.Is(err, core.ErrUnsupported) {
				t.Errorf("%s in %d: %v", name, limit, err)
			}
		}
	}
	if _, err := preview.Render(bytes.NewReader(whole), 10); !errors.Is(err, core.ErrUnsupported) {
		t.Errorf("no room: %v", err)
	}
}
