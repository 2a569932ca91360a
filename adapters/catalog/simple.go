package catalog

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"html"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/boxwright/boxwright/core"
)

const (
	simpleJSON   = "application/vnd.pypi.simple.v1+json"
	acceptSimple = simpleJSON + ", application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
	maxMetadata  = 1 << 20 // bytes
)

// file is one of a project's files.
type file struct {
	name        string
	url         string
	needs       string // the range of Python
	yanked      bool
	hasMetadata bool // its metadata can be had on its own (PEP 658)
}

// simple reads the page of a project in the simple API, in whichever form the index has it.
func (c *Catalog) simple(ctx context.Context, from *url.URL, name string) (core.Package, error) {
	said, err := c.get(ctx, from, acceptSimple, maxAnswer)
	if err != nil {
		return core.Package{}, err
	}
	files, err := said.files()
	if err != nil {
		return core.Package{}, err
	}
	byVersion, needs := map[string]file{}, map[string]string{}
	var versions []string
	for _, f := range files {
		version := versionOf(f.name, name)
		if version == "" || f.yanked {
			continue
		}
		if known, seen := byVersion[version]; !seen || f.hasMetadata && !known.hasMetadata {
			byVersion[version] = f
		}
		versions, needs[version] = append(versions, version), f.needs
	}
	found := packageOf(name, "", once(versions), needs)
	if len(found.Versions) > 0 {
		found.Summary = c.summary(ctx, said.from, byVersion[found.Versions[0]])
	}
	return found, nil
}

// once has each version once.
func once(versions []string) []string {
	slices.Sort(versions)
	return slices.Compact(versions)
}

func (a answer) files() ([]file, error) {
	if a.mediaType == simpleJSON || a.mediaType == "application/json" {
		return jsonFiles(a.body)
	}
	return htmlFiles(a.body), nil
}

// jsonFiles reads the form of PEP 691. What stands for yes may be text or an object there.
func jsonFiles(body []byte) ([]file, error) {
	var page struct {
		Files []struct {
			Filename         string          `json:"filename"`
			URL              string          `json:"url"`
			RequiresPython   string          `json:"requires-python"`
			Yanked           json.RawMessage `json:"yanked"`
			CoreMetadata     json.RawMessage `json:"core-metadata"`
			DistInfoMetadata json.RawMessage `json:"data-dist-info-metadata"`
		} `json:"files"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, core.Errorf(core.ErrUnavailable, "the package index's answer cannot be read")
	}
	files := make([]file, 0, len(page.Files))
	for _, f := range page.Files {
		files = append(files, file{
			name: f.Filename, url: f.URL, needs: f.RequiresPython, yanked: isYes(f.Yanked),
			hasMetadata: isYes(f.CoreMetadata) || isYes(f.DistInfoMetadata),
		})
	}
	return files, nil
}

func isYes(raw json.RawMessage) bool {
	text := string(raw)
	return text != "" && text != "false" && text != "null"
}

// htmlFiles reads the links of the form of PEP 503.
func htmlFiles(body []byte) []file {
	link := regexp.MustCompile(`(?is)<a\s([^>]*)>([^<]*)</a`)
	attribute := regexp.MustCompile(`(?is)([a-z-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'))?`)
	var files []file
	for _, m := range link.FindAllSubmatch(body, -1) {
		f := file{name: html.UnescapeString(strings.TrimSpace(string(m[2])))}
		for _, a := range attribute.FindAllSubmatch(m[1], -1) {
			value := html.UnescapeString(string(a[2]) + string(a[3]))
			switch strings.ToLower(string(a[1])) {
			case "href":
				f.url, _, _ = strings.Cut(value, "#")
			case "data-requires-python":
				f.needs = value
			case "data-yanked":
				f.yanked = true
			case "data-core-metadata", "data-dist-info-metadata":
				f.hasMetadata = value != "false"
			}
		}
		files = append(files, f)
	}
	return files
}

// versionOf is the version in the name of one of the package's files; "" if it is no such file.
func versionOf(filename, name string) string {
	if stem, is := strings.CutSuffix(filename, ".whl"); is {
		parts := strings.Split(stem, "-")
		if len(parts) < 5 || core.NormalizePackage(parts[0]) != name {
			return ""
		}
		return parts[1]
	}
	for _, ending := range []string{".tar.gz", ".zip", ".tar.bz2", ".tgz"} {
		stem, is := strings.CutSuffix(filename, ending)
		at := strings.LastIndexByte(stem, '-')
		if is && at > 0 && core.NormalizePackage(stem[:at]) == name {
			return stem[at+1:]
		}
	}
	return ""
}

// summary reads a file's metadata, if that can be had on its own. It is not needed for more.
func (c *Catalog) summary(ctx context.Context, page *url.URL, f file) string {
	if !f.hasMetadata {
		return ""
	}
	from, err := page.Parse(f.url + ".metadata")
	if err != nil || from.Scheme != "http" && from.Scheme != "https" {
		return ""
	}
	if from.Host == page.Host && from.User == nil {
		from.User = page.User
	}
	said, err := c.get(ctx, from, "*/*", maxMetadata)
	if err != nil {
		return ""
	}
	header, _ := textproto.NewReader(bufio.NewReader(bytes.NewReader(said.body))).ReadMIMEHeader() // as far as it can be read
	return plain(header.Get("Summary"), maxSummary)
}
