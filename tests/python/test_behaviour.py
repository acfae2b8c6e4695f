"""Threads, forks, interrupts, closing, and memory over many sessions and runs."""

import gc
import signal
import subprocess
import textwrap
import threading
import time

from support import *


def endless_loop():
    """A model that would run for hours: a Loop of 2^40 turns."""
    body = helper.make_graph([helper.make_node("Identity", ["go"], ["again"]), helper.make_node("Sin", ["v"], ["w"])],
                             "body", [info("i", 7, []), info("go", 9, []), info("v", 1, [])],
                             [info("again", 9, []), info("w", 1, [])])
    turns = helper.make_tensor("turns", TensorProto.INT64, [], [1 << 39])
    return model_of([helper.make_node("Loop", ["turns", "", "x"], ["y"], body=body)], [info("x", 1, [])], [info("y", 1, [])],
                    initializers=[turns])


class Ending(Case):
    def test_a_closed_session_says_so(self):
        session = ferry.InferenceSession(SIMPLE_NET)
        kept = session.run(None, {"x": np.ones((1, 10), np.float32)})[0].copy()
        with session:
            y = session.run(None, {"x": np.ones((1, 10), np.float32)})[0]
        self.assertEqual(repr(session), "InferenceSession(closed)")
        for use in (lambda: session.run(None, {}), session.get_inputs, session.get_modelmeta,
                    lambda: session.run_with_iobinding(session.io_binding())):
            with self.assertRaisesRegex(ferry.NoModel, "closed"):
                use()
        session.close()
        np.testing.assert_array_equal(y, kept)  # results outlive their session

    def test_terminate_ends_a_run_from_another_thread(self):
        session = ferry.InferenceSession(endless_loop())
        options = ferry.RunOptions()
        threading.Timer(0.2, lambda: setattr(options, "terminate", True)).start()
        begin = time.monotonic()
        with self.assertRaisesRegex(ferry.RuntimeException, "cancelled"):
            session.run(None, {"x": np.float32(1)}, options)
        self.assertLess(time.monotonic() - begin, 30)
        self.assertTrue(options.terminate)

    def test_limits_end_a_run(self):
        session = ferry.InferenceSession(endless_loop())
        options = ferry.RunOptions()
        options.time_limit = 0.05
        with self.assertRaisesRegex(ferry.DeadlineExceeded, "time limit of 0.05 s"):
            session.run(None, {"x": np.float32(1)}, options)
        with self.assertRaises(TimeoutError):
            session.run(None, {"x": np.float32(1)}, options)
        options = ferry.RunOptions()
        options.add_run_config_entry("ferry.max_iterations", "1000")
        self.assertEqual(options.max_iterations, 1000)
        with self.assertRaisesRegex(ferry.RuntimeException, "1000 times"):
            session.run(None, {"x": np.float32(1)}, options)
        with self.assertRaises(ferry.InvalidArgument):
            options.add_run_config_entry("ferry.max_turns", "1")
        for name, wrong in (("time_limit", -1), ("max_bytes", "many"), ("max_iterations", -5)):
            with self.assertRaises(ferry.InvalidArgument):
                setattr(options, name, wrong)

    def test_limits_of_a_session(self):
        options = ferry.SessionOptions()
        options.max_bytes = 8
        with self.assertRaisesRegex(ferry.RuntimeException, "memory limit of 8 bytes"):
            ferry.InferenceSession(SIMPLE_NET, options).run(None, {"x": np.ones((1, 10), np.float32)})
        options = ferry.SessionOptions()
        options.add_session_config_entry("ferry.max_iterations", "100")
        options.add_session_config_entry("ferry.max_programs", "2")
        self.assertIn("max_iterations=100, max_programs=2", repr(options))
        with self.assertRaisesRegex(ferry.RuntimeException, "100 times"):
            ferry.InferenceSession(endless_loop(), options).run(None, {"x": np.float32(1)})
        with self.assertRaises(ferry.InvalidArgument):
            options.add_session_config_entry("ferry.max_bytes", "-1")
        options.time_limit = 1e-9
        with self.assertRaises(ferry.DeadlineExceeded):
            ferry.InferenceSession(SIMPLE_NET, options)

    def test_sessions_may_share_threads(self):
        ferry.set_global_thread_pool_sizes(2, 1)
        options = ferry.SessionOptions()
        options.use_per_session_threads = False
        x = np.ones((1, 10), np.float32)
        sessions = [ferry.InferenceSession(SIMPLE_NET, options) for _ in range(3)]
        expected, = ferry.InferenceSession(SIMPLE_NET).run(None, {"x": x})
        for session in sessions:
            np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected)
            self.assertEqual(session._session.threads(), 2)

    def test_ctrl_c_ends_a_run(self):
        for options in (None, ferry.RunOptions()):
            session = ferry.InferenceSession(endless_loop())
            threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            with self.assertRaises(KeyboardInterrupt):
                session.run(None, {"x": np.float32(1)}, options)
            self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
            if options is not None:
                self.assertFalse(options.terminate)

    def test_a_handler_of_the_users_own_decides_itself(self):
        seen = []
        session = ferry.InferenceSession(endless_loop())
        options = ferry.RunOptions()
        before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
        try:
            threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            threading.Timer(0.6, lambda: setattr(options, "terminate", True)).start()
            with self.assertRaises(ferry.RuntimeException):
                session.run(None, {"x": np.float32(1)}, options)
        finally:
            signal.signal(signal.SIGINT, before)
        self.assertEqual(seen, [1])

    def test_threads_that_run_survive_an_interrupt_of_the_main_thread(self):
        session = ferry.InferenceSession(SIMPLE_NET)
        loop = ferry.InferenceSession(endless_loop())
        stop, failures = threading.Event(), []

        def work():
            while not stop.is_set():
                try:
                    session.run(None, {"x": np.ones((1, 10), np.float32)})
                except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
                    failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            loop.run(None, {"x": np.float32(1)})
        time.sleep(0.05)
        stop.set()
        thread.join()
        self.assertEqual(failures, [])


class Sharing(Case):
    def test_many_threads_share_a_session(self):
        session = ferry.InferenceSession(SIMPLE_NET)
        failures = []

        def work(seed):
            for batch in range(1, 60):
                x = np.full((batch % 7 + 1, 10), seed, np.float32)
                y = session.run(None, {"x": x})[0]
                if not (y == y[0]).all() or y.shape != (batch % 7 + 1, 3):
                    failures.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_the_interpreter_goes_on_while_a_model_runs(self):
        session = ferry.InferenceSession(endless_loop())
        options = ferry.RunOptions()
        thread = threading.Thread(target=lambda: self.assertRaises(ferry.RuntimeException, session.run, None,
                                                                   {"x": np.float32(1)}, options))
        thread.start()
        self.assertEqual(sum(range(100_000)), 4999950000)  # would wait forever for the interpreter's lock
        options.terminate = True
        thread.join()

    def test_a_forked_child_uses_its_parents_session(self):
        script = textwrap.dedent("""
            import os, sys
            import numpy as np
            import ferry
            options = ferry.SessionOptions()
            options.intra_op_num_threads = 3
            session = ferry.InferenceSession(sys.argv[1], options)
            x = np.linspace(-1, 1, 25600, dtype=np.float32).reshape(2560, 10)
            here = session.run(None, {"x": x})[0]
            child = os.fork()
            if child == 0:
                there = [session.run(None, {"x": x})[0] for _ in range(3)]
                fresh = ferry.InferenceSession(sys.argv[1]).run(None, {"x": x})[0]
                del session
                os._exit(0 if all((y == here).all() for y in there + [fresh]) else 1)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            sys.exit(status or not (session.run(None, {"x": x})[0] == here).all())
        """)
        done = subprocess.run([sys.executable, "-c", script, SIMPLE_NET], timeout=120)
        self.assertEqual(done.returncode, 0)


class Memory(Case):
    def grows_by(self, work, count):
        for _ in range(count // 5):
            work()
        gc.collect()
        before = resident_kb()
        for _ in range(count):
            work()
        gc.collect()
        return resident_kb() - before

    # A leak of 100 bytes a turn shows; FERRY_PYTHON_ROUNDS=100000 looks ten times as closely.
    rounds = int(os.environ.get("FERRY_PYTHON_ROUNDS", "10000"))

    def test_runs_do_not_leak(self):
        session = ferry.InferenceSession(SIMPLE_NET)
        x = np.ones((2, 10), np.float32)
        self.assertLess(self.grows_by(lambda: session.run(None, {"x": x}), self.rounds), 1000)

    def test_failing_runs_do_not_leak(self):
        session = ferry.InferenceSession(SIMPLE_NET)
        x = np.ones((2, 9), np.float32)

        def fail():
            try:
                session.run(None, {"x": x})
            except ferry.InvalidArgument:
                pass

        self.assertLess(self.grows_by(fail, self.rounds), 1000)

    def test_sessions_do_not_leak(self):
        options = ferry.SessionOptions()
        options.intra_op_num_threads = 1
        x = np.ones((1, 10), np.float32)
        content = ferry.example_model()
        feed = {"x": x}
        from_memory = self.grows_by(lambda: ferry.InferenceSession(content, options).run(None, feed), self.rounds // 2)
        self.assertLess(from_memory, 1000)
        from_file = self.grows_by(lambda: ferry.InferenceSession(SIMPLE_NET).run(None, feed), self.rounds // 20)
        self.assertLess(from_file, 2000)

    def test_bound_runs_and_strings_do_not_leak(self):
        session = ferry.InferenceSession(one_node("Identity", TensorProto.STRING))
        words = np.array(["one", "a longer one that no small string holds"], object)
        self.assertLess(self.grows_by(lambda: session.run(None, {"x0": words}), self.rounds), 1000)
        session = ferry.InferenceSession(ferry.example_model())
        x, y = np.ones((1, 10), np.float32), ferry.OrtValue.ortvalue_from_numpy(np.empty((1, 3), np.float32))

        def run():
            binding = session.io_binding()
            binding.bind_cpu_input("x", x)
            binding.bind_ortvalue_output("y", y)
            session.run_with_iobinding(binding)

        self.assertLess(self.grows_by(run, self.rounds), 1000)


if __name__ == "__main__":
    unittest.main()
