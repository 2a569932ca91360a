package installer

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/boxwright/boxwright/core"
)

// diagnosis is what a failed installation looks like, and what to do about it.
type diagnosis struct {
	pattern string // regular expression, without regard to case
	message string
	hint    string
}

// diagnoses is searched from top to bottom: what is more certain comes first.
func diagnoses() []diagnosis {
	return slices.Concat(boxDiagnoses(), indexDiagnoses(), packageDiagnoses())
}

func boxDiagnoses() []diagnosis {
	return []diagnosis{
		{
			`the packages need more room than`,
			"they need more room than an environment may have", "ask for fewer packages, or ask the operator to raise dependencies.max_environment",
		},
		{
			`hash mismatch|do not match the hashes`,
			"what the index sent is not what it promised", "ask again later: the index, or something on the way to it, changed a package",
		},
		{
			`has a file .* trying to install outside|scheme key`,
			"a package would write outside its folder", "do not use it: no honest package does that",
		},
		{
			`no such option: --report`,
			"the image's pip is too old", "use an image with pip 22.2 or later, or with uv",
		},
		{
			`no space left on device|disk quota exceeded|os error 28`,
			"there is no room for the packages", "ask for fewer packages, or ask the operator for more room",
		},
	}
}

func indexDiagnoses() []diagnosis {
	return []diagnosis{
		{
			`certificate verify failed|invalid peer certificate|unknownissuer|self.signed certificate`,
			"the package index's certificate is not trusted", "the operator sets dependencies.ca_bundle to the certificate authority's file",
		},
		{
			`\b(?:401|403|407)\b.{0,40}(?:unauthorized|forbidden|error|proxy auth)|proxy authentication required|lack of valid authentication`,
			"the package index or proxy refused the credentials", "the operator checks the credentials in dependencies.index_url and the proxy's",
		},
		{
			`http status server error|\b5\d\d server error`,
			"the package index does not work", "ask again later; the operator checks the package index and the proxy",
		},
		{
			`temporary failure in name resolution|name or service not known|dns error|failed to lookup address|failed to establish a new connection|connection refused|network is unreachable|no route to host|connection timed out|read timed out|connect timeout|operation timed out|tcp connect error|proxyerror|max retries exceeded|error sending request`,
			"the package index cannot be reached", "the operator checks the network, dependencies.index_url and the proxy settings",
		},
	}
}

func packageDiagnoses() []diagnosis {
	return []diagnosis{
		{
			`has no usable wheels|no wheels with a matching|no wheels are available|building from source is disabled|has no wheels|only source`,
			"a package offers no ready-made wheel for this image", "ask for another version or an image with another Python; the operator may set dependencies.allow_source_builds",
		},
		{
			`was not found in the (?:package registry|provided package locations)|not found in the package index`,
			"a package of this name does not exist in the index", "check the spelling: the name on the index may differ from the name that is imported",
		},
		{
			`there (?:is|are) no versions? of|could not find a version that satisfies .*\(from versions: [^n)]`,
			"a version that was asked for does not exist", "ask for another version, or for none",
		},
		{
			`no matching distribution found|\(from versions: none\)`,
			"a package or version does not exist in the index, offers no ready-made wheel for this image, or the index did not answer", "check the spelling and the version: the name on the index may differ from the name that is imported",
		},
		{
			`resolutionimpossible|conflicting dependencies|requirements are unsatisfiable|because you require`,
			"the requirements contradict each other", "ask for fewer or wider versions",
		},
		{
			`failed to build|build backend|building wheel|metadata-generation-failed`,
			"a package could not be built", "ask for a version that offers a wheel, or use an image with the build tools",
		},
	}
}

// judge turns the exit of a package manager into an error, or nil.
func (p *Python) judge(ctx context.Context, what string, exit core.Exit, text string) error {
	status := core.StatusOf(exit)
	switch status {
	case core.StatusOK:
		return nil
	case core.StatusCancelled:
		return given(ctx, what)
	case core.StatusTimedOut:
		return core.Errorf(core.ErrDependency, "%s took longer than %s\n%s", what, p.options.Timeout, relevant(text)).
			WithHint("ask for fewer packages, or ask the operator to raise dependencies.timeout")
	case core.StatusOOMKilled:
		return core.Errorf(core.ErrDependency, "%s needed more memory than there is\n%s", what, relevant(text)).
			WithHint("ask for fewer packages")
	default:
		return diagnose(what, exit, text)
	}
}

func diagnose(what string, exit core.Exit, text string) error {
	for _, d := range diagnoses() {
		if regexp.MustCompile("(?i)" + d.pattern).MatchString(text) {
			return core.Errorf(core.ErrDependency, "%s failed: %s\n%s", what, d.message, relevant(text)).WithHint("%s", d.hint)
		}
	}
	if exit.Signal == "SIGKILL" || exit.Code == killed {
		return core.Errorf(core.ErrDependency, "%s was killed\n%s", what, relevant(text)).WithHint("ask again")
	}
	return core.Errorf(core.ErrDependency, "%s failed with exit status %d\n%s", what, exit.Code, relevant(text))
}

// killed is the exit status by which the guard tells that its program was killed.
const killed = 128 + 9

func given(ctx context.Context, what string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return core.Errorf(core.ErrDependency, "%s took too long", what)
	}
	return core.Errorf(core.ErrCancelled, "%s was given up", what)
}

// relevant is the end of what the package manager said, without its small talk.
func relevant(text string) string {
	chatter := regexp.MustCompile(`(?i)^\s*(?:WARNING: Retrying|Looking in (?:indexes|links)|\[notice\]|Collecting |Processing |Downloading |Using cached |Using (?:CPython|Python) |Resolved |Prepared |warning: Failed to hardlink)`)
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !chatter.MatchString(line) {
			kept.WriteString(line)
		}
	}
	if strings.TrimSpace(kept.String()) == "" {
		kept.WriteString(text)
	}
	return lastLines(kept.String(), 10, 1400)
}
