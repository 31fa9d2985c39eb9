import test from 'ava';
import { testAudit } from './audit.ts';

testAudit({ test });
