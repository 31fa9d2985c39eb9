import { contentType, file, multipart, purpose } from '../../support/multipart.ts';
import type { Attack } from '../attack.ts';
import { repeat } from '../attacker/repeat.ts';
import { post, sendBytes } from '../attacker/send-bytes.ts';
import { allowedArrays, deepArrays, lineFieldBytes, wideArrays } from '../hostile-json.ts';

const lineAround = (value: string) => `{"custom_id":"a","body":{"messages":[],"x":${value}}}`;
const lines = [deepArrays, wideArrays, allowedArrays].map((arrays) => lineAround(arrays(lineFieldBytes - 200)));
const form = multipart([purpose, file([...lines, lines[0], lines[1]].join('\n'))]);

export const deepLines: Attack = {
  id: '4a',
  name: 'deep-lines',
  does: 'uploads of 5 lines of 4 MiB with nested containers, with a key, by two clients; at most 100 MiB a second',
  accounts: 1,
  run: (attacker) =>
    repeat(attacker, { clients: 2, perSecond: 5 }, () =>
      sendBytes(
        attacker,
        post({
          path: '/v1/files',
          key: attacker.target.keys[0],
          contentType: contentType().replace('Content-Type: ', ''),
          body: form,
        }),
      ),
    ),
};
