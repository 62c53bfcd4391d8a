package wire

import "github.com/VictoriaMetrics/easyproto"

// Details are what a google.rpc.Status says beyond code and message.
type Details struct {
	Reason     string            // of its ErrorInfo, as ERROR_REASON_UNKNOWN_DEFINITION
	Metadata   map[string]string // of its ErrorInfo
	RetryAfter int64             // of its RetryInfo, in nanoseconds; 0: none
}

// ReadDetails decodes a google.rpc.Status, as the trailer grpc-status-details-bin
// holds it. What is not understood is left out.
func ReadDetails(src []byte) (d Details) {
	_ = fields(src, func(fc *easyproto.FieldContext) bool {
		if fc.FieldNum == 3 {
			into(fc, d.any())
		}
		return true
	})
	return d
}

// any reads a google.protobuf.Any: its type's URL comes before its value.
func (d *Details) any() func(*easyproto.FieldContext) bool {
	var url string
	return func(fc *easyproto.FieldContext) bool {
		switch {
		case fc.FieldNum == 1:
			return readString(fc, &url)
		case fc.FieldNum == 2 && url == "type.googleapis.com/google.rpc.ErrorInfo":
			return into(fc, d.errorInfo)
		case fc.FieldNum == 2 && url == "type.googleapis.com/google.rpc.RetryInfo":
			return into(fc, d.retryInfo)
		}
		return true
	}
}

func (d *Details) errorInfo(fc *easyproto.FieldContext) bool {
	switch fc.FieldNum {
	case 1:
		return readString(fc, &d.Reason)
	case 3:
		var name, value string
		if !into(fc, object(&name, &value)) {
			return false
		}
		if d.Metadata == nil {
			d.Metadata = map[string]string{}
		}
		d.Metadata[name] = value
	}
	return true
}

func (d *Details) retryInfo(fc *easyproto.FieldContext) bool {
	return fc.FieldNum != 1 || into(fc, func(fc *easyproto.FieldContext) bool {
		switch n, ok := fc.Int64(); {
		case !ok || n < 0 || n > 1e9:
			return false
		case fc.FieldNum == 1:
			d.RetryAfter += n * 1e9
		case fc.FieldNum == 2:
			d.RetryAfter += n
		}
		return true
	})
}
