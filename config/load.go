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

// Options are what a configuration is made of besides its file. The zero Options are right
// for a start.
type Options struct {
	// Getenv gives the value of ${NAME}; an empty one counts as not set. nil is the
	// environment of the process.
	Getenv func(string) string
	// Set has what was typed at the console as SET key = value. A key is its full name, or a
	// part of it that fits no other key; see [Config.Resolve]. A value is TOML, and taken
	// for a text if it is not. Problems of these name the file "SET".
	Set map[string]string
}

// getenv is Getenv, if there is one.
func (o Options) getenv(name string) string {
	if o.Getenv == nil {
		return os.Getenv(name)
	}
	return o.Getenv(name)
}

// Load reads a file and checks that what it names is there. Either there are no problems,
// or the Config is nil. ${NAME} is taken from the environment of the process.
func Load(path string) (*Config, []Problem) { return Options{}.Load(path) }

// LoadEnv is [Load] with an environment of the caller's. An empty variable counts as not
// set.
func LoadEnv(path string, getenv func(string) string) (*Config, []Problem) {
	return Options{Getenv: getenv}.Load(path)
}

// Load is [Load] with these options.
func (o Options) Load(path string) (*Config, []Problem) {
	text, problems := Read(path)
	if len(problems) > 0 {
		return nil, problems
	}
	return o.LoadText(path, text)
}

// Read returns the text of a file for [Options.LoadText], or the problem with it.
func Read(path string) (text string, problems []Problem) {
	text, err := readFile(path)
	if err != nil {
		return "", []Problem{{File: path, Message: err.Error(), Fix: fileFix(err)}}
	}
	return text, nil
}

// LoadText is Load of what [Read] has returned for that path, whatever the file has by now.
func (o Options) LoadText(path, text string) (*Config, []Problem) {
	c, d, problems := o.parse(path, text)
	if d != nil {
		d.checkFiles()
		problems = d.problems
	}
	if len(problems) > 0 {
		sortProblems(problems)
		return nil, problems
	}
	if isPublic(path) && d.holdsPassword() {
		c.warn(`%s holds a password and everybody on this machine may read it: chmod 640, or write "${NAME}" and put the url into the environment`, path)
	}
	return c, nil
}

// checkFiles looks for the files that the configuration names.
func (d *decoder) checkFiles() {
	c := d.config
	if key := "auth.auth_file"; d.fine(key) && c.Auth.File != "" {
		if err := readable(c.Auth.File); err != nil {
			d.complainAt(key, d.placeOf(key, "auth.auth_type"), c.Auth.File+": "+err.Error(), authFileFix)
		} else if isPublic(c.Auth.File) {
			c.warn("%s holds passwords and everybody on this machine may read it: chmod 640", c.Auth.File)
		}
	}
	for _, b := range c.Databases {
		key := dotted(databaseKind, b.Name) + ".password_file"
		if b.PasswordFile == "" || !d.fine(key) {
			continue
		}
		if err := readable(b.PasswordFile); err != nil {
			d.complainAt(key, d.placeOf(key), b.PasswordFile+": "+err.Error(), "")
		} else if isPublic(b.PasswordFile) {
			c.warn("%s holds a password and everybody on this machine may read it: chmod 640", b.PasswordFile)
		}
	}
}

// authFileFix tells how to write one.
const authFileFix = `Put a line "role" "password" there for each role, or write [auth] auth_type = "trust" where only you can connect.`

// isPublic reports whether everybody on the machine may read a file.
func isPublic(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o004 != 0
}

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
func Parse(name string, data []byte) (*Config, []Problem) { return Options{}.Parse(name, data) }

// ParseEnv is [Parse] with an environment of the caller's. An empty variable counts as not
// set.
func ParseEnv(name string, data []byte, getenv func(string) string) (*Config, []Problem) {
	return Options{Getenv: getenv}.Parse(name, data)
}

// Parse is [Parse] with these options.
func (o Options) Parse(name string, data []byte) (*Config, []Problem) {
	c, _, problems := o.parse(name, string(data))
	if len(problems) > 0 {
		return nil, problems
	}
	return c, nil
}

// parse is the common part of loading and parsing.
func (o Options) parse(name, text string) (*Config, *decoder, []Problem) {
	text = strings.TrimPrefix(text, "\ufeff")
	src := &source{name: name, text: text, dir: filepath.Dir(name)}
	if len(text) > maxFile {
		return nil, nil, []Problem{{File: name, Message: fmt.Sprintf("has more than %d bytes", maxFile)}}
	}
	d := newDecoder(src, o.getenv)
	doc, problems := read(src)
	d.problems = problems
	d.decode(doc)
	d.override(o.Set)
	if !doc.broken { // else what seems to be missing may be in the part that could not be read
		d.check()
	}
	d.finish()
	return d.config, d, d.problems
}

// finish prepares what is asked of a configuration often, if it is one.
func (d *decoder) finish() {
	sortProblems(d.problems)
	if len(d.problems) > 0 {
		return
	}
	c := d.config
	c.matcher = newMatcher(c.Workloads)
	c.rates = newRates(c.Rates)
	c.indexRoles()
	c.origin = map[string]string{}
	for key, at := range d.given {
		c.origin[key] = at.src.origin(at.span)
	}
	c.findWarnings()
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
func FromURL(url string) (*Config, []Problem) { return Options{}.FromURL(url) }

// FromURL is [FromURL] with these options.
func (o Options) FromURL(url string) (*Config, []Problem) {
	d := newDecoder(&source{name: urlSource, text: url}, o.getenv)
	const upstream = "main"
	everything := span{0, len(url)}
	d.countNames(document{sections: []section{
		{path: []string{upstreamKind, upstream}, at: everything}, {path: []string{databaseKind, anyDatabase}, at: everything},
	}})
	d.decode(document{})
	c := d.config
	u := &c.Upstreams[0]
	for problem := postgresURL(&u.URL).set(value{node: node{kind: unstable.String, text: url}}); problem != nil; problem = problem.also {
		at := problem.at
		if !at.known() {
			at = everything
		}
		d.complain("", at, problem.message, problem.advice)
	}
	if sortProblems(d.problems); len(d.problems) > 0 {
		return nil, d.problems
	}
	c.Auth = Auth{Type: Scram, User: u.URL.User, Password: u.URL.Password}
	if !u.URL.Password.IsSet() {
		c.Auth.Type = Trust
	}
	d.given[dotted(upstreamKind, upstream)+".url"] = d.here(everything)
	d.given["auth.auth_type"] = d.here(everything)
	d.override(o.Set)
	d.check()
	d.finish()
	if len(d.problems) > 0 {
		return nil, d.problems
	}
	if c.Auth.Type == Trust {
		c.warn("the URL has no password, so whoever reaches %s is let in as role %s", c.Listen[0].Address, u.URL.User)
	}
	return c, nil
}

// urlSource is the name of a URL that takes the place of a file.
const urlSource = "URL"
