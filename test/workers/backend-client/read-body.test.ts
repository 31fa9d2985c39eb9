import test from 'ava';
import type { Exchange } from '../../../workers/backend-client/exchange.ts';
import { readWhole, wholeText } from '../../../workers/backend-client/read-body.ts';
import { roomFor } from '../../support/answer-room.ts';

const exchange = { fail() {} } as unknown as Exchange<string>; // only this is called

for (const pieces of [0, 1, 2, 1_024, 1_025, 5_000]) {
  test(`a whole answer in ${pieces} pieces is read as it was sent`, (t) => {
    const sent = Buffer.from(Array.from({ length: pieces }, (_, index) => 97 + (index % 26)));
    let read: string | undefined;
    const body = readWhole(exchange, {
      room: roomFor(),
      onBytes() {},
      body: wholeText(),
      onWhole(text) {
        read = text;
      },
    });
    for (const byte of sent) body.take(Buffer.of(byte));
    body.end();
    t.is(read, sent.toString());
  });
}
