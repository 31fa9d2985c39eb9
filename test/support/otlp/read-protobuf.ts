/** A field of a message in Protobuf's wire format: a number, or bytes that are a text or another message. */
type Field = { number: number; value: bigint | Buffer };

/** Reads the fields of a message in their order. Throws if the bytes are not a message. */
export function readFields(bytes: Buffer): Field[] {
  const fields: Field[] = [];
  let at = 0;

  function varint(): bigint {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      if (byte === undefined) throw new Error('the message ends within a number');
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }

  function take(length: number): Buffer {
    at += length;
    if (at > bytes.length) throw new Error('the message ends within a field');
    return bytes.subarray(at - length, at);
  }

  while (at < bytes.length) {
    const tag = varint();
    const [number, type] = [Number(tag >> 3n), Number(tag & 7n)];
    if (type === 0) fields.push({ number, value: varint() });
    else if (type === 1) fields.push({ number, value: take(8).readBigUInt64LE() });
    else if (type === 2) fields.push({ number, value: take(Number(varint())) });
    else if (type === 5) fields.push({ number, value: BigInt(take(4).readUInt32LE()) });
    else throw new Error(`unknown wire type ${type}`);
  }
  return fields;
}

/** All messages of this field. */
export function messagesOf(bytes: Buffer, wanted: number): Buffer[] {
  return readFields(bytes).flatMap(({ number, value }) => (number === wanted && Buffer.isBuffer(value) ? [value] : []));
}

export function textOf(bytes: Buffer, wanted: number): string {
  return messagesOf(bytes, wanted)[0]?.toString() ?? '';
}

export function hexOf(bytes: Buffer, wanted: number): string {
  return messagesOf(bytes, wanted)[0]?.toString('hex') ?? '';
}

export function numberOf(bytes: Buffer, wanted: number): bigint {
  const field = readFields(bytes).find(({ number }) => number === wanted);
  return typeof field?.value === 'bigint' ? field.value : 0n;
}
