import type { Attack } from '../attack.ts';
import { repeat } from '../attacker/repeat.ts';
import { post, sendBytes } from '../attacker/send-bytes.ts';
import { allowedMembers, chatBody, chatWithMembers, fieldBytes, members } from '../hostile-json.ts';

const bodies = [
  chatWithMembers(allowedMembers(fieldBytes)),
  chatBody(allowedMembers(fieldBytes)),
  chatWithMembers(members(300_000)),
];

export const unknownFields: Attack = {
  id: '3b',
  name: 'unknown-fields',
  does: 'chat requests of 16 MiB with as many unknown fields as fit, with a key, by two clients; at most 100 MiB a second',
  accounts: 1,
  run: (attacker) =>
    repeat(attacker, { clients: 2, perSecond: 6 }, (_, index) =>
      sendBytes(
        attacker,
        post({ path: '/v1/chat/completions', key: attacker.target.keys[0], body: bodies[index % bodies.length] ?? '' }),
      ),
    ),
};
