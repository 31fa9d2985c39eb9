import { findRedis } from '../stack/redis-server.ts';
import { isMeant } from '../support/faults/declared-faults.ts';
import { allAttacks } from './all-attacks.ts';
import { exitCodeOf, residentMiBMax, slowdownMax } from './judge.ts';
import { type Result, runAttack } from './run-attack.ts';
import { summary, tell } from './tell-result.ts';

const help = `npm run attack                       every attack on a stack of its own: about 20 minutes
npm run attack -- 3 6a idle-connections those of these numbers or names alone
npm run attack -- --list             what there is

Legitimate callers ask from 127.0.0.1; the attacker is a process of its own at 127.0.0.2, so this needs Linux. It yields the
processor to the service, and its rate is bounded to what one machine does through a common line: each attack says how. Ingress and
worker have the heap and the allocator settings of containers of 512 MiB. Tells of each attack what the attacker got, and before,
during and after it how long callers waited and what each process needed. Ends with 1 if
- the median wait of callers was more than ${slowdownMax} times as long during an attack,
- a process had more than ${residentMiBMax} MiB,
- an answer was lost, wrong, or not settled exactly once,
- a caller was refused, or the attacker got more than it may.`;

const wishes = process.argv.slice(2);
const options = wishes.filter((wish) => wish.startsWith('--'));
const chosen = wishes.filter((wish) => !wish.startsWith('--'));
const isChosen = (wish: string) => (attack: { id: string; name: string }) =>
  isMeant(attack.id, wish) || attack.name === wish;
const wanted = allAttacks.filter((attack) => chosen.length === 0 || chosen.some((wish) => isChosen(wish)(attack)));
const unknown = [
  ...options.filter((option) => !['--help', '--list'].includes(option)),
  ...chosen.filter((wish) => !allAttacks.some(isChosen(wish))),
];

if (unknown.length > 0) {
  console.error(`There is no ${unknown.join(', ')}.\n\n${help}`);
  process.exitCode = 2;
} else if (options.includes('--help')) {
  console.log(help);
} else if (options.includes('--list')) {
  for (const { id, name, does } of wanted) console.log(`${id.padEnd(4)} ${name}: ${does}`);
} else {
  await findRedis();
  const results: Pick<Result, 'attack' | 'missed'>[] = [];
  for (const [index, attack] of wanted.entries()) {
    console.log(`\n[${index + 1}/${wanted.length}] ${attack.id} ${attack.name} …`);
    try {
      const result = await runAttack(attack);
      results.push(result);
      console.log(tell(result));
    } catch (error) {
      console.error(error);
      results.push({ attack, missed: ['it did not come to its end'] });
    }
  }
  console.log(`\n${summary(results)}`);
  process.exitCode = exitCodeOf(results);
}
