//go:build race

package loop

import (
	"runtime"
	"unsafe"
)

// raceDetector tells tests that sync.Pool forgets at random.
const raceDetector = true

// The race detector does not see what the kernel does to memory behind a
// RawSyscall; these tell it.

func raceRead(p []byte) {
	if len(p) > 0 {
		runtime.RaceReadRange(unsafe.Pointer(unsafe.SliceData(p)), len(p))
	}
}

func raceWrite(p []byte) {
	if len(p) > 0 {
		runtime.RaceWriteRange(unsafe.Pointer(unsafe.SliceData(p)), len(p))
	}
}
