// Package preview makes a picture small enough to be shown in place.
//
// Decoding a picture that nobody has reviewed is a risk and a load, so it is done inside the box, in a
// process of its own that has no more rights than the code that made the picture. Main is what that
// process does; Renderer is how the agent starts it.
package preview

import (
	"bytes"
	"image"
	"image/color"
	_ "image/gif" // formats that are read
	"image/jpeg"
	"image/png"
	"io"
	"math"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // a format that is read

	"github.com/boxwright/boxwright/core"
)

const (
	maxPixels   = 200_000_000
	largestSide = 4096 // pixels of the longer side of a picture that is shown as it is
	firstSide   = 2048 // the same, at the first attempt to make one smaller
	smallest    = 32
	jpegQuality = 85
)

// Render returns the picture in at most limit bytes: its own if they fit and it is whole and not too
// large to look at, or else a smaller picture.
func Render(source io.ReadSeeker, limit int64) (core.Preview, error) {
	config, format, err := image.DecodeConfig(source)
	if err != nil {
		return core.Preview{}, core.Errorf(core.ErrUnsupported, "this is not a picture that can be read")
	}
	if int64(config.Width)*int64(config.Height) > maxPixels || config.Width <= 0 || config.Height <= 0 {
		return core.Preview{}, core.Errorf(core.ErrUnsupported, "the picture has %d×%d pixels, which is too many for a preview",
			config.Width, config.Height)
	}
	size, err := source.Seek(0, io.SeekEnd)
	if err != nil {
		return core.Preview{}, core.Errorf(core.ErrInternal, "the picture cannot be read: %w", err)
	}
	if _, err := source.Seek(0, io.SeekStart); err != nil {
		return core.Preview{}, core.Errorf(core.ErrInternal, "the picture cannot be read: %w", err)
	}
	picture, _, err := image.Decode(source) // whole: half a picture spoils the conversation it is shown in
	if err != nil {
		return core.Preview{}, core.Errorf(core.ErrUnsupported, "this is not a picture that can be read")
	}
	if size <= limit && max(config.Width, config.Height) <= largestSide {
		return original(source, format, size)
	}
	return shrink(picture, limit)
}

func original(source io.ReadSeeker, format string, size int64) (core.Preview, error) {
	_, err := source.Seek(0, io.SeekStart)
	data := make([]byte, size)
	if err == nil {
		_, err = io.ReadFull(source, data)
	}
	if err != nil {
		return core.Preview{}, core.Errorf(core.ErrInternal, "the picture cannot be read: %w", err)
	}
	return core.Preview{MIMEType: "image/" + format, Data: data}, nil
}

// shrink tries ever smaller pictures. PNG keeps plots sharp, JPEG is for photographs.
func shrink(picture image.Image, limit int64) (core.Preview, error) {
	longer := max(picture.Bounds().Dx(), picture.Bounds().Dy())
	for side := min(longer, firstSide); side >= min(smallest, longer); {
		if side < longer {
			picture = scale(picture, side)
		}
		best := int64(math.MaxInt64)
		for _, encode := range []func(image.Image) (string, []byte){encodePNG, encodeJPEG} {
			kind, data := encode(picture)
			if data != nil && int64(len(data)) <= limit {
				return core.Preview{MIMEType: kind, Data: data, Shrunk: true}, nil
			}
			best = min(best, int64(len(data)))
		}
		side = smaller(side, best, limit)
	}
	return core.Preview{}, core.Errorf(core.ErrUnsupported, "the picture does not fit %d bytes at any size", limit)
}

// smaller guesses the side at which a picture fits, from the bytes that it takes at the present one.
func smaller(side int, size, limit int64) int {
	const caution, least = 0.95, 0.85
	guess := caution * math.Sqrt(float64(limit)/float64(size))
	return int(float64(side) * min(guess, least))
}

// scale goes in two steps when it has far to go: looking at every pixel of a large picture is slow.
func scale(picture image.Image, side int) image.Image {
	size := picture.Bounds().Size()
	if longer := max(size.X, size.Y); longer > 4*side {
		picture = resize(draw.ApproxBiLinear, picture, 3*side)
	}
	return resize(draw.BiLinear, picture, side)
}

func resize(method draw.Scaler, picture image.Image, side int) image.Image {
	bounds := picture.Bounds()
	longer := max(bounds.Dx(), bounds.Dy())
	width, height := max(1, bounds.Dx()*side/longer), max(1, bounds.Dy()*side/longer)
	small := image.NewRGBA(image.Rect(0, 0, width, height)) // the type for which scaling is fast
	method.Scale(small, small.Bounds(), picture, bounds, draw.Src, nil)
	return small
}

func encodePNG(picture image.Image) (string, []byte) {
	var out bytes.Buffer
	if err := png.Encode(&out, picture); err != nil {
		return "", nil
	}
	return "image/png", out.Bytes()
}

// encodeJPEG puts the picture on white, as JPEG knows no transparency.
func encodeJPEG(picture image.Image) (string, []byte) {
	flat := image.NewRGBA(picture.Bounds())
	draw.Draw(flat, flat.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.Draw(flat, flat.Bounds(), picture, picture.Bounds().Min, draw.Over)
	var out bytes.Buffer
	if err := jpeg.Encode(&out, flat, &jpeg.Options{Quality: jpegQuality}); err != nil {
		return "", nil
	}
	return "image/jpeg", out.Bytes()
}
