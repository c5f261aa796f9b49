package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// maxFile bounds the size of a configuration in bytes.
const maxFile = 1 << 20

// Load reads a file and checks that what it names is there. Either there are no problems,
// or the Config is nil. ${NAME} is taken from the environment of the process.
func Load(path string) (*Config, []Problem) { return LoadEnv(path, os.Getenv) }

// LoadEnv is [Load] with an environment of the caller's. An empty variable counts as not
// set.
func LoadEnv(path string, getenv func(string) string) (*Config, []Problem) {
	data, err := readFile(path)
	if err != nil {
		return nil, []Problem{{File: path, Message: err.Error(), Fix: fileFix(err)}}
	}
	c, d, problems := parseSource(path, data, getenv)
	if d != nil && d.fine("auth.auth_file") && c.Auth.File != "" {
		if err := readable(c.Auth.File); err != nil {
			d.complain("auth.auth_file", d.placeOf("auth.auth_file", "auth.auth_type"), c.Auth.File+": "+err.Error(), authFileFix)
			problems = d.problems
		}
	}
	if len(problems) > 0 {
		sortProblems(problems)
		return nil, problems
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o004 != 0 && d.holdsPassword() {
		c.warnings = append(c.warnings, path+" holds a password and everybody on this machine may read it")
	}
	return c, nil
}

// authFileFix tells how to write one.
const authFileFix = `Put a line "role" "password" there for each role, or write [auth] auth_type = "trust" where only you can connect.`

// readFile reads a file of bounded size. Its errors do not repeat the path.
func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", cause(err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", cause(err)
	case info.IsDir():
		return "", errors.New("is a directory")
	case info.Size() > maxFile:
		return "", fmt.Errorf("has more than %d bytes", maxFile)
	}
	data, err := os.ReadFile(path)
	return string(data), cause(err)
}

// readable tells why a file cannot be read.
func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return cause(err)
	}
	return f.Close()
}

// cause drops operation and path from an error of package os.
func cause(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// fileFix tells what to do about a file that cannot be read.
func fileFix(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "pgweir check --defaults prints a file to start from."
	}
	return ""
}

// Parse reads the text of a configuration. name is for problems, and relative paths start
// at its directory; no file is opened. Either there are no problems, or the Config is nil.
// ${NAME} is taken from the environment of the process.
func Parse(name string, data []byte) (*Config, []Problem) { return ParseEnv(name, data, os.Getenv) }

// ParseEnv is [Parse] with an environment of the caller's. An empty variable counts as not
// set.
func ParseEnv(name string, data []byte, getenv func(string) string) (*Config, []Problem) {
	c, _, problems := parseSource(name, string(data), getenv)
	if len(problems) > 0 {
		return nil, problems
	}
	return c, nil
}

// parseSource is the common part of loading and parsing.
func parseSource(name, text string, getenv func(string) string) (*Config, *decoder, []Problem) {
	text = strings.TrimPrefix(text, "\ufeff")
	src := &source{name: name, text: text, dir: filepath.Dir(name)}
	if len(text) > maxFile {
		return nil, nil, []Problem{{File: name, Message: fmt.Sprintf("has more than %d bytes", maxFile)}}
	}
	d := &decoder{
		src: src, getenv: getenv, config: &Config{Workloads: make([]Workload, 1)},
		given: map[string]span{}, bad: map[string]bool{}, open: map[string][]field{}, said: map[string]bool{},
	}
	doc, problems := read(src)
	d.problems = problems
	d.decode(doc)
	d.check(doc)
	sortProblems(d.problems)
	if len(d.problems) == 0 {
		d.config.warn()
	}
	return d.config, d, d.problems
}

// holdsPassword reports whether the text itself has a password in it, rather than the name
// of a variable.
func (d *decoder) holdsPassword() bool {
	for _, u := range d.config.Upstreams {
		if u.URL.Password.IsSet() && strings.Contains(d.src.text, u.URL.Password.Reveal()) {
			return true
		}
	}
	return false
}

// FromURL makes the configuration that needs no file: it listens on 127.0.0.1:6432, sends
// every database's clients to the Postgres of the URL, and lets in exactly the URL's role
// with the URL's password. The budget is "auto". Problems say "URL" for the file's name and
// never contain the password.
func FromURL(url string) (*Config, []Problem) {
	d := &decoder{src: &source{name: "URL", text: url}, config: &Config{Workloads: make([]Workload, 1)}}
	c := d.config
	for _, fields := range [][]field{topFields(c), logFields(&c.Log), tlsFields(&c.TLS), authFields(&c.Auth), workloadFields(&c.Workloads[0])} {
		defaults(fields, "")
	}
	c.Upstreams = []Upstream{{Name: "main"}}
	u := &c.Upstreams[0]
	fields := upstreamFields(u)
	defaults(fields, "")
	c.Databases = []Database{{Name: anyDatabase, Upstream: u.Name}}
	for problem := postgresURL(&u.URL).set(value{node: node{kind: unstable.String, text: url}}); problem != nil; problem = problem.also {
		at := problem.at
		if !at.known() {
			at = span{0, len(url)}
		}
		d.complain("", at, problem.message, problem.advice)
	}
	if len(d.problems) > 0 {
		return nil, d.problems
	}
	c.Auth = Auth{Type: Scram, User: u.URL.User, Password: u.URL.Password}
	if !u.URL.Password.IsSet() {
		c.Auth.Type = Trust
		c.warnings = append(c.warnings, "the URL has no password, so whoever reaches "+c.Listen[0].Address+" is let in as role "+u.URL.User)
	}
	return c, nil
}
