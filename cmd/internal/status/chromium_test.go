package status

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// browser is a headless Chromium that is spoken to over its debugging pipe.
type browser struct {
	t   *testing.T
	in  io.WriteCloser
	ids int

	mu      sync.Mutex
	replies map[int]chan reply
	trouble []string // what the console, the log and uncaught errors said
	ended   chan struct{}
}

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// findChromium skips the test when there is none, unless that is asked for.
func findChromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("PGWEIR_REQUIRE_CHROMIUM") != "" {
		t.Fatal("PGWEIR_REQUIRE_CHROMIUM is set and no Chromium is in PATH")
	}
	t.Skip("no Chromium in PATH: the status page is not looked at (apt-get install chromium; PGWEIR_REQUIRE_CHROMIUM=1 to insist)")
	return ""
}

// newBrowser starts a Chromium for the length of the test.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := findChromium(t)
	toChild, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, fromChild, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// The sandbox needs rights that containers and root do not have; only our own page is shown.
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{toChild, fromChild} // it reads from 3 and writes to 4
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = toChild.Close()
	_ = fromChild.Close()
	b := &browser{t: t, in: in, replies: make(map[int]chan reply), ended: make(chan struct{})}
	go b.read(out)
	t.Cleanup(func() {
		_ = in.Close()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with all of its children, or the directory could not be removed
		_ = cmd.Wait()
		_ = out.Close()
		<-b.ended
	})
	return b
}

// read takes in what the browser says, until it ends.
func (b *browser) read(out io.Reader) {
	defer close(b.ended)
	r := bufio.NewReader(out)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			reply
		}
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		if c := b.replies[m.ID]; m.ID != 0 && c != nil {
			c <- m.reply
			delete(b.replies, m.ID)
		} else if said := complaint(m.Method, m.Params); said != "" {
			b.trouble = append(b.trouble, said)
		}
		b.mu.Unlock()
	}
}

// complaint is what an event says is wrong with the page; "" for other events.
func complaint(method string, params json.RawMessage) string {
	var p struct {
		Type  string
		Args  []struct{ Value, Description any }
		Entry struct{ Level, Text, URL string }
	}
	_ = json.Unmarshal(params, &p) // what does not fit is no complaint
	switch {
	case method == "Runtime.exceptionThrown":
		return string(params)
	case method == "Runtime.consoleAPICalled" && (p.Type == "error" || p.Type == "warning" || p.Type == "assert"):
		return fmt.Sprint(p.Type, p.Args)
	case method == "Log.entryAdded" && (p.Entry.Level == "error" || p.Entry.Level == "warning"):
		return p.Entry.Text + " " + p.Entry.URL
	}
	return ""
}

func (b *browser) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.trouble
}

// call sends a command and returns its result.
func (b *browser) call(session, method string, params, result any) error {
	b.mu.Lock()
	b.ids++
	id, answer := b.ids, make(chan reply, 1)
	b.replies[id] = answer
	b.mu.Unlock()
	text, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params, "sessionId": session})
	if err != nil {
		return err
	}
	if session == "" {
		text = []byte(strings.Replace(string(text), `,"sessionId":""`, "", 1))
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		return err
	}
	select {
	case r := <-answer:
		if r.Error != nil {
			return fmt.Errorf("%s: %s", method, r.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(r.Result, result)
	case <-b.ended:
		return errors.New("the browser has ended")
	case <-time.After(time.Minute):
		return fmt.Errorf("%s: no answer", method)
	}
}

// tab is one page of the browser.
type tab struct {
	*browser
	session string
}

// object is the parameters of a command.
type object map[string]any

// open opens a page of so many pixels, in one of the two colour schemes.
func (b *browser) open(url string, width, height int, scheme string) *tab {
	b.t.Helper()
	var target struct{ TargetID string }
	b.must(b.call("", "Target.createTarget", object{"url": "about:blank"}, &target))
	var attached struct{ SessionID string }
	b.must(b.call("", "Target.attachToTarget", object{"targetId": target.TargetID, "flatten": true}, &attached))
	p := &tab{b, attached.SessionID}
	for _, domain := range []string{"Runtime", "Log", "Page"} {
		p.do(domain+".enable", object{})
	}
	p.resize(width, height)
	p.do("Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": scheme}}})
	p.do("Page.navigate", object{"url": url})
	return p
}

func (b *browser) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (p *tab) do(method string, params object) {
	p.t.Helper()
	p.must(p.call(p.session, method, params, nil))
}

func (p *tab) resize(width, height int) {
	p.t.Helper()
	p.do("Emulation.setDeviceMetricsOverride", object{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false})
}

// eval runs an expression and returns its value as text.
func (p *tab) eval(expression string) string {
	p.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Exception struct{ Description string } }
	}
	p.must(p.call(p.session, "Runtime.evaluate", object{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r))
	if r.ExceptionDetails != nil {
		p.t.Fatalf("%s: %s", expression, r.ExceptionDetails.Exception.Description)
	}
	return fmt.Sprint(r.Result.Value)
}

// wait waits until an expression is true.
func (p *tab) wait(expression string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	// While a page is loading there is nothing to find yet.
	for p.eval("(() => { try { return Boolean("+expression+") } catch { return false } })()") != "true" {
		select {
		case <-ctx.Done():
			p.t.Fatalf("%s did not become true; the page says:\n%s", expression, p.eval("document.body.innerText"))
		case <-again.C:
		}
	}
}

// screenshot writes the whole page to the test's artifacts, or to PGWEIR_SCREENSHOTS.
func (p *tab) screenshot(name string) {
	p.t.Helper()
	var shot struct{ Data string }
	p.must(p.call(p.session, "Page.captureScreenshot", object{"format": "png", "captureBeyondViewport": true}, &shot))
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		p.t.Fatal(err)
	}
	dir := os.Getenv("PGWEIR_SCREENSHOTS")
	if dir == "" {
		dir = p.t.ArtifactDir()
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, png, 0o644); err != nil {
		p.t.Fatal(err)
	}
	p.t.Logf("screenshot: %s (%d bytes)", path, len(png))
}
