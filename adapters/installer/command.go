package installer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"

	"github.com/boxwright/boxwright/core"
)

// uvCommand installs with uv.
func (j *job) uvCommand(uv string) []string {
	argv := []string{
		uv, "pip", "install", "--target", core.GuestEnvironment, "--python", "python3",
		"--no-config",
	}
	if !j.options.AllowSourceBuilds {
		argv = append(argv, "--only-binary", ":all:")
	}
	return append(argv, "-r", requirementsFile)
}

// pipCommand installs with pip.
func (j *job) pipCommand() []string {
	argv := []string{
		"python3", "-I", "-m", "pip", "install", "--target", core.GuestEnvironment,
		"--no-input", "--disable-pip-version-check", "--no-warn-script-location", "--no-compile", "--progress-bar", "off",
	}
	if !j.options.AllowSourceBuilds {
		argv = append(argv, "--only-binary=:all:")
	}
	return append(argv, "-r", requirementsFile)
}

// compileCommand compiles bytecode. The folder is read-only for the code, so that without it every
// run would compile what it imports: pandas then takes seconds longer, each time. The packages'
// own tests, half of all files, are left out.
func compileCommand() []string {
	return []string{"python3", "-I", "-m", "compileall", "-qq", "-j", "0", "-x", "/tests?/", core.GuestEnvironment}
}

// environment is what both package managers are told: uv reads UV_*, pip PIP_*.
func (p *Python) environment() map[string]string {
	env := map[string]string{
		"TMPDIR":              scratchDir,
		"UV_LINK_MODE":        "copy",
		"UV_NO_PROGRESS":      "1",
		"UV_PYTHON_DOWNLOADS": "never",
		"PIP_CONFIG_FILE":     "/dev/null",
	}
	if p.UsesCache() {
		env["UV_CACHE_DIR"], env["PIP_CACHE_DIR"] = core.GuestCache+"/uv", core.GuestCache+"/pip"
	} else {
		env["UV_NO_CACHE"], env["PIP_NO_CACHE_DIR"] = "1", "1"
	}
	set := func(value string, names ...string) {
		for _, name := range names {
			if value != "" {
				env[name] = value
			}
		}
	}
	o := p.options
	set(o.IndexURL, "UV_DEFAULT_INDEX", "PIP_INDEX_URL")
	set(strings.Join(o.ExtraIndexURLs, " "), "UV_INDEX", "PIP_EXTRA_INDEX_URL")
	set(p.trustedHosts(), "PIP_TRUSTED_HOST")
	if o.CABundle != "" {
		set(core.GuestWork+"/"+caFile, "SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")
	}
	set(o.HTTPProxy, "HTTP_PROXY", "http_proxy")
	set(o.HTTPSProxy, "HTTPS_PROXY", "https_proxy")
	set(o.NoProxy, "NO_PROXY", "no_proxy")
	return env
}

// trustedHosts lists the hosts of http indexes: pip refuses them otherwise, though the operator
// named them.
func (p *Python) trustedHosts() string {
	var hosts []string
	for _, index := range append([]string{p.options.IndexURL}, p.options.ExtraIndexURLs...) {
		if u, err := url.Parse(index); err == nil && u.Scheme == "http" {
			hosts = append(hosts, u.Host)
		}
	}
	return strings.Join(hosts, " ")
}

// Fingerprint implements dependency.Installer.
func (p *Python) Fingerprint() string {
	parts := []string{"python 1", fmt.Sprintf("source %v", p.options.AllowSourceBuilds), withoutCredentials(p.options.IndexURL)}
	for _, index := range p.options.ExtraIndexURLs {
		parts = append(parts, withoutCredentials(index))
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:16])
}

// withoutCredentials is the index's address alone. What cannot be read as a URL gives nothing:
// nobody knows where its secret is.
func withoutCredentials(index string) string {
	u, err := url.Parse(index)
	if err != nil {
		return ""
	}
	u.User = nil
	return u.String()
}
