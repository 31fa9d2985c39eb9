import type { Attack } from '../attack.ts';
import { repeat } from '../attacker/repeat.ts';
import { post, sendBytes } from '../attacker/send-bytes.ts';
import { allowedArrays, chatBody, deepArrays, fieldBytes, wideArrays } from '../hostile-json.ts';

const bodies = [deepArrays(fieldBytes), wideArrays(fieldBytes), allowedArrays(fieldBytes)].map(chatBody);

export const nestingWithKey: Attack = {
  id: '3a',
  name: 'nesting-with-key',
  does: 'chat requests of 16 MiB with nested containers in an unknown field, with a key, by two clients; at most 100 MiB a second',
  accounts: 1,
  run: (attacker) =>
    repeat(attacker, { clients: 2, perSecond: 6 }, (_, index) =>
      sendBytes(
        attacker,
        post({ path: '/v1/chat/completions', key: attacker.target.keys[0], body: bodies[index % bodies.length] ?? '' }),
      ),
    ),
};
