package schedule_test

import (
	"fmt"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/schedule"
)

// One resource's way: put, delivered without an answer, tried again.
func Example() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	key := record.Key{Sink: "kube", Name: "default/web"}

	s := schedule.New(schedule.Options{})
	s.ConfigureSink("kube", schedule.Limits{})
	s.Set(key, schedule.Plan{At: now, Class: schedule.Fresh, Phase: record.Pending, Since: now})

	d, _ := s.Next(now)
	fmt.Println("deliver", d.Key, d.Class)

	started := now
	now = now.Add(30 * time.Second) // the call's deadline
	v := s.Done(d.Key, now, schedule.Report{Unanswered: true, Started: started})
	fmt.Println("burns an attempt:", v.Charge)

	// The engine stores the outcome, and then:
	s.Settle(d.Key, schedule.Plan{At: now.Add(2 * time.Second), Class: schedule.Retry, Phase: record.Pending, Since: started})
	at, _ := s.Wake(now)
	fmt.Println("next in", at.Sub(now))
	// Output:
	// deliver kube/default/web fresh
	// burns an attempt: false
	// next in 2s
}
