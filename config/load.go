package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pgweir/pgweir/config/decode"
	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/endpoint"
	"github.com/pgweir/pgweir/config/schema"
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
		c.checkFiles(d)
		problems = d.Problems()
	}
	if len(problems) > 0 {
		return nil, problems
	}
	if isPublic(path) && c.holdsPassword(text) {
		c.warn(`%s holds a password and everybody on this machine may read it: chmod 640, or write "${NAME}" and put the url into the environment`, path)
	}
	return c, nil
}

// checkFiles looks for the files that the configuration names.
func (c *Config) checkFiles(d *decode.Decoder) {
	if key := "auth.auth_file"; d.Fine(key) && c.Auth.File != "" {
		if err := readable(c.Auth.File); err != nil {
			d.Complain(key, c.Auth.File+": "+err.Error(), authFileFix, key, "auth.auth_type")
		} else if isPublic(c.Auth.File) {
			c.warn("%s holds passwords and everybody on this machine may read it: chmod 640", c.Auth.File)
		}
	}
	c.checkEncryption(d)
	for _, b := range c.Databases {
		key := document.Dotted(schema.DatabaseKind, b.Name) + ".password_file"
		if b.PasswordFile == "" || !d.Fine(key) {
			continue
		}
		if err := readable(b.PasswordFile); err != nil {
			d.Complain(key, b.PasswordFile+": "+err.Error(), "", key)
		} else if isPublic(b.PasswordFile) {
			c.warn("%s holds a password and everybody on this machine may read it: chmod 640", b.PasswordFile)
		}
	}
}

// checkEncryption looks for the files that the URL of an upstream names.
func (c *Config) checkEncryption(d *decode.Decoder) {
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		key, e := document.Dotted(schema.UpstreamKind, u.Name)+".url", &u.URL.Encryption
		for _, f := range []struct{ name, path string }{{"sslrootcert", e.RootCert}, {"sslcert", e.Cert}, {"sslkey", e.Key}} {
			if f.path == "" || f.name == "sslrootcert" && f.path == endpoint.SystemRoots || !d.Fine(key) {
				continue
			}
			if err := readable(f.path); err != nil {
				d.Complain(key, f.name+": "+f.path+": "+err.Error(), "", key)
			}
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
func Parse(name string, data []byte) (*Config, []Problem) {
	return Options{}.Parse(name, data)
}

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

// parse is the common part of loading and parsing. The Config lacks what [Config.finish]
// prepares if there are problems, and is nil if nothing was read.
func (o Options) parse(name, text string) (*Config, *decode.Decoder, []Problem) {
	text = strings.TrimPrefix(text, "\ufeff")
	if len(text) > maxFile {
		return nil, nil, []Problem{{File: name, Message: fmt.Sprintf("has more than %d bytes", maxFile)}}
	}
	d := decode.File(&document.Source{Name: name, Text: text, Dir: filepath.Dir(name)}, o.getenv, o.Set)
	c := &Config{File: *d.File}
	problems := d.Problems()
	if len(problems) == 0 {
		c.finish(d)
	}
	return c, d, problems
}

// finish prepares what is asked of a configuration often.
func (c *Config) finish(d *decode.Decoder) {
	c.matcher = newMatcher(c.Workloads)
	c.rates = newRates(c.Rates)
	c.indexRoles()
	c.origin = d.Origins()
	c.findWarnings()
}

// holdsPassword reports whether the text itself has a password in it, rather than the name
// of a variable.
func (c *Config) holdsPassword(text string) bool {
	for _, u := range c.Upstreams {
		if u.URL.Password.IsSet() && strings.Contains(text, u.URL.Password.Reveal()) {
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
	d := decode.URL(url, o.getenv, o.Set)
	if problems := d.Problems(); len(problems) > 0 {
		return nil, problems
	}
	c := &Config{File: *d.File}
	if c.checkEncryption(d); len(d.Problems()) > 0 {
		return nil, d.Problems()
	}
	c.finish(d)
	if c.Auth.Type == Trust {
		c.warn("the URL has no password, so whoever reaches %s is let in as role %s", c.Listen[0].Address, c.Upstreams[0].URL.User)
	}
	return c, nil
}
