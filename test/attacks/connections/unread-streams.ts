import type { Attack } from '../attack.ts';
import { askForMuch } from './ask-for-much.ts';
import { prepareLongAnswers } from './long-answers.ts';

export const unreadStreams: Attack = {
  id: '11b',
  name: 'unread-streams',
  does: 'streams of 4 MiB, which half of the clients do not read and the others read at 4 KB a second, on 60 connections of 2 accounts; at most 3 new ones a second',
  accounts: 2,
  plan: 'pro',
  prepare: () => prepareLongAnswers({ stream: true }),
  forMs: 30_000,
  run: (attacker) => askForMuch(attacker, { stream: true }),
};
