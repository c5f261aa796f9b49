package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxSecret is the most bytes that a password's file or command may give.
const maxSecret = 64 * 1024

// Passwords gives the password of one role at each log-in. No error quotes it.
type Passwords interface {
	Password(ctx context.Context) (string, error)
}

// Fixed is a password that does not change.
type Fixed string

// Password returns it.
func (f Fixed) Password(context.Context) (string, error) { return string(f), nil }

// String hides it.
func (Fixed) String() string { return "****" }

// GoString hides it.
func (Fixed) GoString() string { return "****" }

// File is the path of a file whose first line is the password. It is read at each
// log-in, so that a secret can be rotated by replacing the file.
type File string

// Password reads the file, of at most 64 KiB.
func (f File) Password(context.Context) (string, error) {
	// The errors of os name the path.
	file, err := os.Open(string(f))
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // it was only read
	if info, err := file.Stat(); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() {
		// A pipe or a terminal could keep the log-in waiting for ever.
		return "", fmt.Errorf("%s: not a regular file", string(f))
	}
	b, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err != nil {
		return "", err
	}
	password, err := firstLine(b)
	if err != nil {
		return "", fmt.Errorf("%s: %w", string(f), err)
	}
	return password, nil
}

// firstLine is the password in the contents of a file or the output of a command.
func firstLine(b []byte) (string, error) {
	if len(b) > maxSecret {
		return "", fmt.Errorf("more than %d bytes", maxSecret)
	}
	line, _, _ := bytes.Cut(b, []byte{'\n'})
	password := strings.TrimSuffix(string(line), "\r")
	switch {
	case password == "":
		return "", errors.New("no password in the first line")
	case strings.ContainsRune(password, 0):
		return "", errors.New("a zero byte in the password")
	}
	return password, nil
}
