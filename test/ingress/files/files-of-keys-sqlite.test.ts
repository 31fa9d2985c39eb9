import test from 'ava';
import { createSqliteHome } from '../../shared/store/sqlite-home.ts';
import { testFilesOfKeys } from './files-of-keys.ts';

testFilesOfKeys({ test, createHome: createSqliteHome });
