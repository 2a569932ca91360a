package e2e

import "testing"

// TestLanguages: programs in other languages, known ones and the operator's.
func TestLanguages(t *testing.T) {
	require(t, "engine")
	s := serve(t, setup{config: testImages + `languages:
  javascript: {image: "` + nodeImage + `"}
  typescript: {image: "` + nodeImage + `"}
  awk: {command: [awk, -f, "{file}.awk"]}
  cobol: {command: [no-such-cobol, "{file}.cob"]}
`})
	run := func(language, code string, more ...any) result {
		a := program(code, more...)
		a["language"] = language
		return s.use(t, "run_code", a)
	}
	outcome{stdout: "3 x\n", files: []string{"f"}}.check(t, run("bash", "a=(1 2 3); echo ${#a[@]} $(cat); echo $0 > f", "stdin", "x"))
	outcome{stdout: "[]\n"}.check(t, run("sh", "echo \"[$(ls -A | grep -v boxwright)]\""))
	outcome{stdout: "42\n"}.check(t, run("python", "print(42)"))
	outcome{stdout: "2\n"}.check(t, run("awk", "{ print NF }", "stdin", "a b\n"))
	outcome{status: "failed", exit: 7, stderr: "oops"}.check(t, run("bash", "echo oops >&2; exit 7"))
	outcome{status: "timed_out", exit: 137, signal: "SIGKILL", stdout: "a\n"}.check(t, run("bash", "echo a; sleep 100", "timeout_seconds", 2))
	outcome{stdout: "1\n", files: []string{"f"}}.check(t, run("javascript", "import fs from 'node:fs'\nconst r = await Promise.resolve(1); console.log(r); fs.writeFileSync('f', 'f')"))
	outcome{stdout: "5 b\n"}.check(t, run("typescript", "import { five } from './m.mts'\nconst n: number = five; console.log(n, ((s: string): string => s)('b'))",
		"files", []any{map[string]any{"path": "m.mts", "content": "export const five: number = 5"}}))
	if r := run("cobol", "x"); r.Error.Type != "not_found" && r.Error.Type != "unsupported" {
		t.Errorf("a program that the image lacks: %s", r.raw)
	}
	if r := run("klingon", "x"); r.Error.Type != "invalid" {
		t.Errorf("got %s", r.raw)
	} else {
		holds(t, r.text, "bash", "python", "typescript", "awk")
	}
}
