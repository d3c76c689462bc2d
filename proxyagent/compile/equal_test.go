package compile

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// TestEqual changes every field of the compared values in turn, those too that will be added: each must be noticed.
func TestEqual(t *testing.T) {
	eachField(t, func(a, b model.ServicePort) bool { return equalPorts(&a, &b) })
	eachField(t, equalGlobals)
}

func eachField[T any](t *testing.T, equal func(a, b T) bool) {
	t.Helper()
	var zero T
	if !equal(zero, zero) {
		t.Errorf("%T: the zero values are not equal", zero)
	}
	for i := range reflect.TypeFor[T]().NumField() {
		changed := zero
		field := reflect.ValueOf(&changed).Elem().Field(i)
		setAny(t, field)
		if equal(zero, changed) || equal(changed, zero) {
			t.Errorf("%T: another %s is not noticed", zero, reflect.TypeFor[T]().Field(i).Name)
		}
	}
}

// setAny sets a value to something that is not its zero value.
func setAny(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Struct:
		switch p := v.Addr().Interface().(type) {
		case *model.PortName:
			p.Port = "http"
		case *model.LocalSource:
			p.CIDR = netip.MustParsePrefix("10.0.0.0/8")
		default:
			t.Fatalf("%s: teach this test to set one", v.Type())
		}
	default:
		t.Fatalf("%s: teach this test to set one", v.Type())
	}
}
