import type { Attack } from '../attack.ts';
import { repeat } from '../attacker/repeat.ts';
import { post, sendBytes } from '../attacker/send-bytes.ts';
import { bodyBytesMax, deepArrays, members, wideArrays } from '../hostile-json.ts';

/** The largest body of a device. */
const deviceBytesMax = 4_096;
const bodies = [
  deepArrays(bodyBytesMax),
  deepArrays(deviceBytesMax),
  wideArrays(bodyBytesMax),
  wideArrays(deviceBytesMax),
  members(400),
].map((body) => post({ path: '/v1/keys/guest', body }));

export const anonymousNesting: Attack = {
  id: '2',
  name: 'anonymous-nesting',
  does: 'JSON of nested and of many containers, 4 KiB and 16 MiB, without a credential, by two clients; at most 100 MiB a second',
  run: (attacker) =>
    repeat(attacker, { clients: 2, perSecond: 15 }, (_, index) =>
      sendBytes(attacker, bodies[index % bodies.length] ?? Buffer.alloc(0)),
    ),
};
