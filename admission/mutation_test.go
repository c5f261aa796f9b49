package admission

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var mutations = flag.Bool("mutations", false, "plant each bug of testdata/mutations.txt, which takes minutes")

// TestMutationsAreCaught plants each bug of testdata/mutations.txt in turn and expects a test
// to fail. The sources stay as they are: the compiler is given a changed copy. To be run by
// hand, with -mutations.
func TestMutationsAreCaught(t *testing.T) {
	if !*mutations {
		t.Skip("without -mutations")
	}
	b, err := os.ReadFile(filepath.Join("testdata", "mutations.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(strings.TrimSpace(string(b)), "\n====\n") {
		head, change, ok := strings.Cut(block, "\n---\n")
		name, file, ok2 := strings.Cut(head, "\n")
		was, is, ok3 := strings.Cut(change+"\n", "\n---\n")
		if !ok || !ok2 || !ok3 {
			t.Fatalf("malformed block:\n%s", block)
		}
		t.Run(name, func(t *testing.T) {
			out, failed := plant(t, file, was, strings.TrimSuffix(is, "\n"))
			by := regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|panic: (test timed out)`).FindAllStringSubmatch(out, -1)
			if !failed || len(by) == 0 {
				t.Fatalf("not caught, or does not compile:\n%s", out)
			}
			var names []string
			for _, m := range by {
				names = append(names, m[1]+m[2])
			}
			t.Logf("caught by %s", strings.Join(names, ", "))
		})
	}
}

// plant runs the other tests with was replaced by is in a file, and returns what they said.
func plant(t *testing.T, file, was, is string) (out string, failed bool) {
	t.Helper()
	source, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), was); n != 1 {
		t.Fatalf("the text to replace stands %d times in %s", n, file)
	}
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(text), was, is, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := json.Marshal(map[string]map[string]string{"Replace": {source: changed}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, j, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-vet=off", "-overlay", overlay, "-timeout", "40s", ".",
		"-rapid.nofailfile", "-rapid.shrinktime", "1ms")
	b, err := cmd.CombinedOutput()
	return string(b), err != nil
}
