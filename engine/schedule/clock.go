package schedule

import "time"

// never is a time that doesn't come.
const never = int64(1<<63 - 1)

// maxWall bounds wall times, in nanoseconds since 1970 (the year 2116), so that
// they can be added to an offset.
const maxWall = int64(1) << 62

// slack is how far a caller's time may lie behind one seen before without being
// taken for a clock that was set back: callers read their clocks before they
// wait for the engine's mutex.
const slack = int64(time.Second)

// clock maps the callers' wall times to times that never go back. All waits are
// kept in the latter.
type clock struct {
	high   int64 // the latest wall time seen since the clock was last set back
	offset int64 // added to wall times; grows by each step back
}

// now is the latest time seen.
func (c *clock) now() int64 { return c.high + c.offset }

// advance takes in the caller's time.
func (c *clock) advance(t time.Time) {
	wall := wallNanos(t)
	if wall < c.high-slack {
		c.offset = min(c.offset+c.high-wall, maxWall-2)
		c.high = wall
	}
	c.high = max(c.high, wall)
}

// from converts a wall time.
func (c *clock) from(t time.Time) int64 { return wallNanos(t) + c.offset }

// wall converts back: when, by the callers' clock, at will be.
func (c *clock) wall(at int64) time.Time { return time.Unix(0, at-c.offset).UTC() }

// wallNanos returns t in nanoseconds since 1970, bounded to 0 and maxWall.
func wallNanos(t time.Time) int64 {
	switch s := t.Unix(); {
	case s < 0:
		return 0
	case s >= maxWall/int64(time.Second):
		return maxWall
	}
	return t.UnixNano()
}
