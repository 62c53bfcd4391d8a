package wasmhost_test

import (
	"reflect"
	"testing"

	"github.com/pawlsync/pawl/engine/wasmhost"
)

func TestTheSumOfStatsLeavesNothingOut(t *testing.T) {
	filled := func(n int64) wasmhost.Stats {
		var s wasmhost.Stats
		v := reflect.ValueOf(&s).Elem()
		for i := range v.NumField() {
			f := v.Field(i)
			if f.Kind() != reflect.Map {
				f.SetInt(n)
				continue
			}
			f.Set(reflect.MakeMap(f.Type()))
			f.SetMapIndex(reflect.ValueOf("both").Convert(f.Type().Key()), reflect.ValueOf(n))
		}
		return s
	}
	if got, want := filled(1).Plus(filled(2)), filled(3); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := (wasmhost.Stats{}).Plus(filled(2)); !reflect.DeepEqual(got, filled(2)) {
		t.Errorf("nothing and something is %+v", got)
	}
}
